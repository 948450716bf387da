/** Whose share of the API a request uses. */

import type { Caller } from '../../identity/rules/caller.ts'

/**
 * All keys of a user have one share together, apart from that of the user's identity tokens: what is
 * done with a leaked key takes nothing from its owner.
 */
export function rateLimitKey({ by, user }: Caller): string {
  return `${by} ${user}`
}

/** The same for revocations, of which each key has its own: another one of the user may have leaked. */
export function revocationRateLimitKey(caller: Caller): string {
  return caller.by === 'key' ? `key ${caller.keyId}` : rateLimitKey(caller)
}
