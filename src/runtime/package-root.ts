import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder with package.json, envoy/ and examples/. */
export const packageRoot = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
