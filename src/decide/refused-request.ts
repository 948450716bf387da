/** A refused request of the REST API, for the log. */

import type { PastRefusal } from './past-refusal.ts'

export interface RefusedRequest
  extends Pick<PastRefusal, 'code' | 'caller' | 'method' | 'requestId'> {
  /** The route's pattern; undefined for an unknown path. */
  readonly route: string | undefined
  readonly address: string
  readonly traceparent: string | undefined
}
