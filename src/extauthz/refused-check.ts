/** A refused Check, for logs, spans and metrics. */

import type { Denial } from '../decide/decision.ts'
import type { ErrorCode } from '../formats/errors.ts'
import type { Caller } from '../identity/rules/caller.ts'
import type { CheckRequest } from './check-request.ts'

/** A refusal, with its request. */
export interface RefusedCheck
  extends Pick<CheckRequest, 'subscription' | 'source' | 'requestId' | 'method' | 'path'> {
  readonly code: ErrorCode
  readonly denial: Denial
  /** When it was decided, in milliseconds since the epoch. */
  readonly now: number
  /** The model that the body names, according to the gateway. */
  readonly bodyModel: string | undefined
  /** The HTTP status of the answer. */
  readonly status: number
  /** For the log only: the caller may not be allowed to know it. */
  readonly reason: string | undefined
  /** null: the credential is invalid, or could not be checked. */
  readonly caller: Caller | null
  /** As requested by the path or the body, whether it exists or not. */
  readonly model: string | undefined
  readonly traceparent: string | undefined
}
