/**
 * Runs before `npm pack`: writes lib/, which is the clone as an installed package needs it. Node strips no types
 * below node_modules, so the sources are there without them.
 */

import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'
import { packageRoot } from '../src/runtime/package-root.ts'

/** What the commands read, `up` included. */
const parts = [
  'src',
  'dev',
  'examples/model-server.ts',
  'examples/resources',
  'examples/sample-model',
  'examples/tokens.csv',
  'envoy/bootstrap.yaml',
  'envoy/lua',
  'envoy/requirements.txt',
  'console/dist',
  'monitoring/rules.yaml',
  'package.json',
]

/** The JavaScript of a source: without types, and with the names that its files have then. */
export function toJavaScript(source: string): string {
  return stripTypeScriptTypes(source).replaceAll(/'([^'\n]+)\.ts'/g, "'$1.js'")
}

function write(part: string, folder: string): void {
  const from = join(packageRoot, part)
  const to = join(folder, part)
  if (!/\.[jt]s$/.test(part)) {
    mkdirSync(dirname(to), { recursive: true })
    cpSync(from, to, { recursive: true })
    return
  }
  mkdirSync(dirname(to), { recursive: true })
  writeFileSync(to.replace(/\.ts$/, '.js'), toJavaScript(readFileSync(from, 'utf8')))
}

if (import.meta.main) {
  const lib = join(packageRoot, 'lib')
  rmSync(lib, { recursive: true, force: true })
  for (const part of parts) {
    const files = ['src', 'dev', 'examples/sample-model'].includes(part) ? filesIn(part) : [part]
    for (const file of files) write(file, lib)
  }
}

function filesIn(part: string): readonly string[] {
  return readdirSync(join(packageRoot, part), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(packageRoot.length + 1))
}
