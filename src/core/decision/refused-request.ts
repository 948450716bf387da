/** A refused request of the REST API, for the log. */

import type { Caller } from './caller.ts'
import type { ErrorCode } from './errors.ts'

export interface RefusedRequest {
  readonly code: ErrorCode
  /** null: no valid credential. */
  readonly caller: Caller | null
  readonly method: string
  /** The route's pattern; undefined for an unknown path. */
  readonly route: string | undefined
  readonly address: string
  readonly requestId: string
  readonly traceparent: string | undefined
}
