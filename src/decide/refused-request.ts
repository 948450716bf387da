/** A refused request of the REST API, for the log. */

import type { ErrorCode } from '../formats/errors.ts'
import type { Caller } from '../identity/rules/caller.ts'

export interface RefusedRequest {
  readonly code: ErrorCode
  /** Null without a valid credential. */
  readonly caller: Caller | null
  readonly method: string
  /** The route's pattern; undefined for an unknown path. */
  readonly route: string | undefined
  readonly address: string
  readonly requestId: string
  readonly traceparent: string | undefined
}
