/** Users' requests for a temporary increase, until an administrator has decided them. */

import type { ExactInt } from '../../formats/exact.ts'
import { toAmount } from '../../formats/money.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/time.ts'
import { sharerOfCounter } from '../../models/rules/shared-limits.ts'
import type { NewIncrease } from '../../ratelimit/increases/active-increases.ts'
import { limitKindOfKey, parseCounterKey } from '../../ratelimit/rules/counter-key.ts'
import type { Notice } from '../notices/store.ts'

/** Maximum number of open requests of a user. */
export const maxOpen = 5
/** How long a decided request is listed. */
export const listedDays = 30

interface NewLimitRequest extends Omit<NewIncrease, 'createdBy'> {
  readonly user: string
}

export interface LimitRequest extends NewLimitRequest {
  readonly id: string
  readonly state: 'open' | 'approved' | 'denied'
  readonly decidedBy: string | null
  /** Milliseconds since the epoch. */
  readonly decidedAt: number | null
  readonly decisionReason: string | null
  /** For an approved request. */
  readonly increaseId: string | null
  readonly grantedLimit: ExactInt | null
  readonly grantedUntil: number | null
}

export interface Verdict {
  readonly by: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly reason: string | null
  /** Undefined if the request is denied. */
  readonly grant: { readonly limit: ExactInt; readonly until: number } | undefined
}

/** All reject if the database is unavailable; a change may then have been made. */
export interface LimitRequests {
  /** Resolves with undefined if the user has the maximum number of open requests. */
  add(asked: NewLimitRequest): Promise<LimitRequest | undefined>
  /**
   * A user's requests, open or decided, the latest first; for null the open requests of all users, the oldest first.
   */
  list(
    user: string | null,
    now: number,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<readonly LimitRequest[]>
  /** Number of open requests of all users. */
  countOpen(now: number): Promise<number>
  find(id: string, now: number): Promise<LimitRequest | undefined>
  /**
   * Decides a request once, and adds its increase if it is granted; resolves with the decided request, which has the
   * earlier verdict if there was one. Undefined if there is no such request; `full` if the maximum number of increases
   * is in force, when the request stays open.
   */
  decide(id: string, verdict: Verdict): Promise<LimitRequest | 'full' | undefined>
}

/** The notice of a request or of its decision. */
export function noticeOf(request: LimitRequest): Notice {
  const { id, user, counter, per, limit, until, reason, createdAt } = request
  const { state, decidedBy, decidedAt, decisionReason, grantedLimit, grantedUntil } = request
  const { subscription: resource, model, counted } = parseCounterKey(counter)
  const kind = limitKindOfKey({ counted })
  const whom = sharerOfCounter({ scope: per }, { key: counter })
  const isOpen = state === 'open'
  return {
    subject: `limit request ${id}`,
    percent: isOpen ? 0 : 1,
    endsAt: until,
    windowMs: 0,
    body: JSON.stringify({
      type: isOpen ? 'limit.request.created' : 'limit.request.decided',
      timestamp: toTimestamp(decidedAt ?? createdAt),
      data: {
        ...{ id, user, resource, name: model.slice(1), scope: per, kind },
        ...(whom !== undefined && { whom }),
        ...{ limit: toAmount({ kind }, limit), until: toEndTimestamp(until), reason },
        ...(!isOpen && { state, decidedBy }),
        ...(decisionReason !== null && { decisionReason }),
        ...(grantedLimit !== null && { grantedLimit: toAmount({ kind }, grantedLimit) }),
        ...(grantedUntil !== null && { grantedUntil: toEndTimestamp(grantedUntil) }),
      },
    }),
  }
}
