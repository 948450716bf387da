/** A refused Check, for logs, spans and metrics. */

import type { Denial } from '../decide/decision.ts'
import type { PastRefusal } from '../decide/past-refusal.ts'
import type { CheckRequest } from './check-request.ts'

/** A refusal, with its request. */
export interface RefusedCheck
  extends Pick<CheckRequest, 'subscription' | 'source' | 'requestId' | 'method' | 'path'>,
    Pick<PastRefusal, 'code' | 'bodyModel' | 'status' | 'reason' | 'caller'> {
  readonly denial: Denial
  /** When it was decided, in milliseconds since the epoch. */
  readonly now: number
  /** As requested by the path or the body, whether it exists or not. */
  readonly model: string | undefined
  readonly traceparent: string | undefined
}
