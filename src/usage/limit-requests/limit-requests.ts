/** Requests of users for more of a limit for a while, until an administrator has decided them. */

import type { Exact } from '../../formats/exact.ts'
import { toFigure } from '../../formats/money.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/time.ts'
import { whomOf } from '../../models/rules/shared-limits.ts'
import type { NewIncrease } from '../../ratelimit/increases/active-increases.ts'
import { kindOf, readCounterKey } from '../../ratelimit/rules/counter-key.ts'
import type { Notice } from '../notices/store.ts'

/** The most that a user has open. */
export const maxOpen = 5
/** How long one that was decided is listed. */
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
  /** Of one that was approved. */
  readonly increaseId: string | null
  readonly grantedLimit: Exact | null
  readonly grantedUntil: number | null
}

export interface Verdict {
  readonly by: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly reason: string | null
  /** undefined: it is denied. */
  readonly grant: { readonly limit: Exact; readonly until: number } | undefined
}

/** All reject if the database is unavailable; a change may then have been made. */
export interface LimitRequests {
  /** undefined: as many of the user as may be are open. */
  add(asked: NewLimitRequest): Promise<LimitRequest | undefined>
  /** Those of a user, open or decided, the latest first; of everybody (null) the open ones, the oldest first. */
  list(
    user: string | null,
    now: number,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<readonly LimitRequest[]>
  /** How many of everybody are open. */
  countOpen(now: number): Promise<number>
  find(id: string, now: number): Promise<LimitRequest | undefined>
  /**
   * Decides it once, with its increase: the request as it is then, which is the earlier verdict if there was one.
   * undefined: there is none; `full`: as many increases as may be are in force, and it stays open.
   */
  decide(id: string, verdict: Verdict): Promise<LimitRequest | 'full' | undefined>
}

/** Of a request, or of its decision. */
export function noticeOf(request: LimitRequest): Notice {
  const { id, user, counter, per, limit, until, reason, createdAt } = request
  const { state, decidedBy, decidedAt, decisionReason, grantedLimit, grantedUntil } = request
  const { subscription: resource, model, counted } = readCounterKey(counter)
  const kind = kindOf({ counted })
  const whom = whomOf({ scope: per }, { key: counter })
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
        ...{ limit: toFigure({ kind }, limit), until: toEndTimestamp(until), reason },
        ...(!isOpen && { state, decidedBy }),
        ...(decisionReason !== null && { decisionReason }),
        ...(grantedLimit !== null && { grantedLimit: toFigure({ kind }, grantedLimit) }),
        ...(grantedUntil !== null && { grantedUntil: toEndTimestamp(grantedUntil) }),
      },
    }),
  }
}
