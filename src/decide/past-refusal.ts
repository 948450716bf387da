/** A refusal of Check that is remembered, so that its caller can ask for the reason. */

import type { ErrorCode } from '../formats/errors.ts'
import type { Caller } from '../identity/rules/caller.ts'
import type { LimitState } from '../ratelimit/rules/limit.ts'

export interface PastRefusal {
  readonly requestId: string
  /** Milliseconds since the epoch. */
  readonly at: number
  /** The HTTP status of the response. */
  readonly status: number
  readonly code: ErrorCode
  /** As the caller got it. */
  readonly message: string
  /** If a limit refused: the limits as they were. */
  readonly states: readonly LimitState[]
  /** The group whose pool the request would have drawn on (Grant.pool). */
  readonly pool?: string | undefined
  /** More detailed than the caller may know (refusal-message.ts). */
  readonly reason: string | undefined
  /** Null without a valid credential. */
  readonly caller: Caller | null
  readonly method: string
  readonly path: string
  /** The model that the body named. */
  readonly bodyModel: string | undefined
  /** The client's, if known. */
  readonly address: string | undefined
  /** The client's `x-maas-subscription`. */
  readonly requestedSubscription: string | undefined
}

/** Whose refusals: a user's, or only one key's of this user. */
export interface RefusalOwner {
  readonly user: string
  readonly keyId?: string | undefined
}

/** Whether a refusal is one of theirs; one without a valid credential has no owner. */
export function isRefusalOf({ caller }: PastRefusal, { user, keyId }: RefusalOwner): boolean {
  if (caller?.user !== user) return false
  return keyId === undefined || (caller.by === 'key' && caller.keyId === keyId)
}

/** The refusals of the last hour in this process, except those with an unusually long text. */
export interface PastRefusals {
  /** The last refusal of this request: of `user`, or of any user if that is undefined. */
  find(requestId: string, user: string | undefined, now: number): PastRefusal | undefined
  /** The last ones, newest first; of all users without `whose`. */
  recent(limit: number, now: number, whose?: RefusalOwner): readonly PastRefusal[]
  /** When this process began to remember, if that is less than an hour ago. */
  since(now: number): number | undefined
}

/** Refusals that other processes remember. */
export interface ReportedRefusals {
  readonly refusals: readonly PastRefusal[]
  /** The names of processes that may remember more and did not respond, or undefined if not all processes are known. */
  readonly silent: readonly string[] | undefined
}

/** The refusals that the other processes of the service remember. Never rejects. */
export interface PeerRefusals {
  find(requestId: string, user: string | undefined): Promise<ReportedRefusals>
  recent(limit: number, whose?: RefusalOwner): Promise<ReportedRefusals>
}
