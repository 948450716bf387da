import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder that holds package.json, envoy/ and examples/. */
export const packageRoot = dirname(dirname(fileURLToPath(import.meta.url)))
