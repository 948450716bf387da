/** Who presents this? A bearer credential → Caller, chosen by the credential's shape. */

import { looksLikeKey } from '../core/api-key.ts'
import type { Caller } from '../core/caller.ts'
import type { Source } from '../store/api-keys.ts'

/** A way to believe one kind of credential. null: not believed. */
export type Verify = (
  credential: string,
  now: number,
  source?: Source,
) => Caller | null | Promise<Caller | null>

/**
 * The Caller behind an `Authorization` header, null when there is none to believe. Answers
 * without a promise when it knows; throws `store_unavailable` when it can't find out.
 */
export type Authenticate = (
  authorization: string | undefined,
  now: number,
  source?: Source,
) => Caller | null | Promise<Caller | null>

/** `Bearer` in any case, one credential without blanks (RFC 6750, 2.1; RFC 9110, 11.1). */
const bearer = /^bearer +([^\s,]+) *$/i

/** Sends keys one way and identity tokens the other. */
export function createAuthenticate(deps: { key: Verify; token: Verify }): Authenticate {
  return function authenticate(authorization, now, source) {
    const credential = authorization === undefined ? undefined : bearer.exec(authorization)?.[1]
    if (credential === undefined) return null
    const verify = looksLikeKey(credential) ? deps.key : deps.token
    return verify(credential, now, source)
  }
}
