import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder that holds package.json, envoy/ and examples/. */
export const PACKAGE_ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
