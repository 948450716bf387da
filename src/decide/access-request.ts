/** One request at the gateway, as plain values. */

import type { Caller } from '../identity/rules/caller.ts'
import type { RequestTarget } from '../operations/request-target.ts'
import type { RequestSize } from '../ratelimit/rules/estimates/estimator.ts'

export interface AccessRequest {
  /** Null without a valid credential. */
  readonly caller: Caller | null
  readonly target: RequestTarget
  /** The HTTP method. */
  readonly method: string
  /** The model in the body, if the gateway has read it before Check: on shared paths, and when it asks again. */
  readonly bodyModel: string | undefined
  /** The body's problem, or fields that may be one (restrictions.ts), if the gateway has read it before Check. */
  readonly bodyProblem?: string | undefined
  /** The client's `x-maas-subscription`; used only for identity tokens. */
  readonly requestedSubscription: string | undefined
  /** Whether identity tokens allow inference too. */
  readonly tokensOpen?: boolean | undefined
  /**
   * The client's address, to be checked against the networks of a key: null if it is unknown, undefined if it is not
   * checked.
   */
  readonly address?: string | null | undefined
  /** The gateway's id of the request, and of its hold. */
  readonly requestId?: string | undefined
  /** As the gateway has read it, or undefined if it has not. */
  readonly size?: RequestSize | undefined
  /** Whether the gateway has not read the body yet, and can ask again when it has. */
  readonly isUnread?: boolean | undefined
}
