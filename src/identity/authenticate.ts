/** A credential → Caller, by the credential's form. */

import type { Caller } from '../core/decision/caller.ts'
import { looksLikeKey } from '../core/formats/api-key.ts'
import type { Source } from '../store/api-keys.ts'

/** Verifies one kind of credential. null: invalid. */
export type Verify = (
  credential: string,
  now: number,
  source?: Source,
) => Caller | null | Promise<Caller | null>

/** The same without any request to another system. */
export type VerifyNow = (credential: string, now: number, source?: Source) => Caller | null

/** The headers that may contain a credential, as sent. */
export interface Presented {
  readonly authorization: string | undefined
  /** `x-api-key`, as sent by Anthropic's clients. */
  readonly apiKey: string | undefined
}

/**
 * The Caller of a request, null if it has no valid credential. Returns without a promise if it can.
 * Throws `credential_invalid` if it can give a reason, and a code with status 503 if it cannot
 * verify.
 */
export type Authenticate = (
  presented: Presented,
  now: number,
  source?: Source,
) => Caller | null | Promise<Caller | null>

/** `Bearer` in any case, one credential without whitespace (RFC 6750, 2.1; RFC 9110, 11.1). */
const bearer = /^bearer +([^\s,]+) *$/i

/** Longer ones are refused unread; identity tokens with hundreds of groups are shorter. */
const maxCredentialLength = 16_384
const maxHeaderLength = maxCredentialLength + 'Bearer '.length

/** Verifies API keys and identity tokens separately. */
export function createAuthenticate(deps: { key: Verify; token: Verify }): Authenticate {
  return function authenticate(presented, now, source) {
    const credential = credentialOf(presented)
    if (credential === undefined) return null
    const verify = looksLikeKey(credential) ? deps.key : deps.token
    return verify(credential, now, source)
  }
}

/** The only credential of a request; undefined if there is none, or more than one. */
export function credentialOf({ authorization, apiKey }: Presented): string | undefined {
  const bearer = bearerOf(authorization)
  if (apiKey === undefined) return bearer
  // An identity token is not accepted in this header, which its issuer's software does not use.
  if (apiKey.length > maxCredentialLength || !looksLikeKey(apiKey)) return undefined
  return authorization === undefined || bearer === apiKey ? apiKey : undefined
}

function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined || authorization.length > maxHeaderLength) return undefined
  return bearer.exec(authorization)?.[1]
}
