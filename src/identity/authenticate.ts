/** Who presents this? A credential → Caller, chosen by the credential's shape. */

import { looksLikeKey } from '../core/api-key.ts'
import type { Caller } from '../core/caller.ts'
import type { Source } from '../store/api-keys.ts'

/** A way to believe one kind of credential. null: not believed. */
export type Verify = (
  credential: string,
  now: number,
  source?: Source,
) => Caller | null | Promise<Caller | null>

/** The same for what is known without asking anybody. */
export type VerifyNow = (credential: string, now: number, source?: Source) => Caller | null

/** The headers that a credential may stand in, as they were sent. */
export interface Presented {
  readonly authorization: string | undefined
  /** `x-api-key`, which Anthropic's clients send. */
  readonly apiKey: string | undefined
}

/**
 * The Caller behind what a request presents, null when there is none to believe. Answers without a
 * promise when it knows; throws `credential_invalid` when it can say why not, and a code of 503 when
 * it cannot find out.
 */
export type Authenticate = (
  presented: Presented,
  now: number,
  source?: Source,
) => Caller | null | Promise<Caller | null>

/** `Bearer` in any case, one credential without blanks (RFC 6750, 2.1; RFC 9110, 11.1). */
const bearer = /^bearer +([^\s,]+) *$/i

/** What is longer is not read; identity tokens with hundreds of groups are shorter. */
const longestCredential = 16_384
const longestHeader = longestCredential + 'Bearer '.length

/** Sends keys one way and identity tokens the other. */
export function createAuthenticate(deps: { key: Verify; token: Verify }): Authenticate {
  return function authenticate(presented, now, source) {
    const credential = credentialOf(presented)
    if (credential === undefined) return null
    const verify = looksLikeKey(credential) ? deps.key : deps.token
    return verify(credential, now, source)
  }
}

/** The one credential of a request; undefined where there is none, or more than one. */
function credentialOf({ authorization, apiKey }: Presented): string | undefined {
  const borne = bearerOf(authorization)
  if (apiKey === undefined) return borne
  // An identity token opens nothing in a header that its own issuer's software knows nothing of.
  if (apiKey.length > longestCredential || !looksLikeKey(apiKey)) return undefined
  return authorization === undefined || borne === apiKey ? apiKey : undefined
}

function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined || authorization.length > longestHeader) return undefined
  return bearer.exec(authorization)?.[1]
}
