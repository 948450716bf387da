/**
 * What a request is aimed at, read from its path alone. Two shapes lead to a model:
 * `/<namespace>/<model>/v1/…` names it, `/v1/…` leaves it to the body.
 */

import { isNamedByBody, isNamedByPath } from './operations.ts'

export interface Target {
  /** `<namespace>/<name>` from the path; undefined on the shared paths. */
  readonly modelKey: string | undefined
  /** The path as the model's server knows it, without the query. */
  readonly operation: string
  /** `?…` or empty. */
  readonly query: string
}

/** The target of a path as Envoy normalised it; undefined when it leads to no model. */
export function readTarget(path: string): Target | undefined {
  const queryStart = path.indexOf('?')
  const end = queryStart < 0 ? path.length : queryStart
  const query = path.slice(end)
  const whole = path.slice(0, end)
  if (isNamedByBody(whole) || isNamedByPath(whole)) {
    return { modelKey: undefined, operation: whole, query }
  }
  const nameStart = path.indexOf('/', 1) + 1
  const operationStart = nameStart === 0 ? -1 : path.indexOf('/', nameStart)
  if (path[0] !== '/' || operationStart < 0 || operationStart >= end) return undefined
  const modelKey = path.slice(1, operationStart)
  const operation = path.slice(operationStart, end)
  if (!operation.startsWith('/v1/') && operation !== '/v1') return undefined
  return { modelKey, operation, query }
}
