import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

const FETCHED = new URL('../../.tools/envoy-1.40.0/envoy/_bin/envoy', import.meta.url).pathname

/**
 * The Envoy that tests run: ENVOY_PATH, else `envoy` on PATH, else the one that `npm start` or
 * `npm test` fetched earlier. Undefined when there is none, for a test to skip with that reason.
 */
export function envoyPath(): string | undefined {
  const { ENVOY_PATH, PATH = '' } = process.env
  if (ENVOY_PATH) return ENVOY_PATH
  const onPath = PATH.split(delimiter).map((folder) => join(folder, 'envoy'))
  return [...onPath, FETCHED].find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
