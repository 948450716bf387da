import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder with package.json, envoy/ and examples/. */
export const packageRoot = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

/** The program's version. */
export function readVersion(): string {
  return JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')).version
}
