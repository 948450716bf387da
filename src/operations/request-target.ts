/**
 * The target of a request, read only from its path. `/<namespace>/<model>/v1/…` names the model;
 * with `/v1/…` the body does.
 */

import { intern, memoize } from '../formats/memoize.ts'
import { isNamedByBody, isNamedByPath } from './operations.ts'

export interface RequestTarget {
  /** `<namespace>/<name>` from the path; undefined on shared paths. */
  readonly modelKey: string | undefined
  /** The path at the model's server, without the query. */
  readonly operation: string
  /** `?…` or empty. */
  readonly query: string
}

/** The cache is small, and holds no key. */
const [maxPaths, maxLength] = [4_096, 256]
const recall = memoize(maxPaths, read)

/** The target of a path that Envoy has normalized; undefined if it belongs to no model. */
export function parseTarget(path: string): RequestTarget | undefined {
  return path.length > maxLength || path.includes('?') ? read(path) : recall(path)
}

function read(path: string): RequestTarget | undefined {
  const queryStart = path.indexOf('?')
  const end = queryStart < 0 ? path.length : queryStart
  const query = path.slice(end)
  const whole = path.slice(0, end)
  if (isNamedByBody(whole) || isNamedByPath(whole)) {
    return { modelKey: undefined, operation: intern(whole), query }
  }
  const nameStart = path.indexOf('/', 1) + 1
  const operationStart = nameStart === 0 ? -1 : path.indexOf('/', nameStart)
  if (path[0] !== '/' || operationStart < 0 || operationStart >= end) return undefined
  const modelKey = path.slice(1, operationStart)
  const operation = path.slice(operationStart, end)
  if (!operation.startsWith('/v1/') && operation !== '/v1') return undefined
  return { modelKey: intern(modelKey), operation: intern(operation), query }
}
