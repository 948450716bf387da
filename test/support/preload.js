/**
 * For `node --import`: hundreds of test files load the same modules, and should not each compile, strip and find them.
 * JavaScript, so that the first thing a process does is not to load what strips types.
 */
import { registerHooks } from 'node:module'
import { cacheCompiled } from '../../src/runtime/compile-cache.js'

cacheCompiled()
const url = process.env.TAP_BUNDLE
if (url !== undefined) {
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === 'tap'
        ? { url, format: 'module', shortCircuit: true }
        : next(specifier, context),
  })
}
