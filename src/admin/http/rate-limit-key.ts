/** Whose share of the API a request uses. */

import { ServiceError } from '../../formats/errors.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { createFairLimiter } from '../../runtime/fair-limiter.ts'

/**
 * All keys of a user share one limit, apart from the user's identity tokens, so that a leaked key takes nothing from
 * its owner.
 */
export function rateLimitKey({ by, user }: Caller): string {
  return `${by} ${user}`
}

/** For revocations each key has its own limit: another key of the user may have leaked. */
export function revocationRateLimitKey(caller: Caller): string {
  return caller.by === 'key' ? `key ${caller.keyId}` : rateLimitKey(caller)
}

/** How long a query waits for its turn, in milliseconds. */
const turnMs = 5_000

/**
 * Runs the queries of one share one after the other, and at most `atOnce` of all shares; one that waits too long fails
 * with `code`.
 */
export function createShareQueue(atOnce: number, code: 'search_timeout' | 'usage_timeout') {
  const refusal = () => new ServiceError(code)
  const inTurn = createFairLimiter({ atOnce, oneEach: true, timeoutMs: turnMs, refusal })
  return <Result>(caller: Caller, act: () => Promise<Result>): Promise<Result> =>
    inTurn(rateLimitKey(caller), act)
}
