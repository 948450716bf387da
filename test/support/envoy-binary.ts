import { findOnPath, isExecutable } from '../../dev/python-wheel.ts'

const FETCHED = new URL('../../.tools/envoy-1.40.0/envoy/_bin/envoy', import.meta.url).pathname

/**
 * The Envoy that tests run: ENVOY_PATH, else `envoy` on PATH, else the one that `npm start` or `npm
 * test` downloaded earlier. Undefined if there is none; the test then skips with that reason.
 */
export function envoyPath(): string | undefined {
  if (process.env.ENVOY_PATH) return process.env.ENVOY_PATH
  return findOnPath('envoy', process.env) ?? (isExecutable(FETCHED) ? FETCHED : undefined)
}
