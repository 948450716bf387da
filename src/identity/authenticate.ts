/** A credential → Caller, by the credential's form. */

import { looksLikeKey } from '../keys/rules/api-key.ts'
import type { Source } from '../keys/store.ts'
import type { Caller } from './rules/caller.ts'

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
 * The Caller of a request by its only credential (`credentialOf`), null if that is not valid. Returns without a promise if it can.
 * Throws `credential_invalid` if it can give a reason, and a code with status 503 if it cannot
 * verify.
 */
export type Authenticate = (
  credential: string | undefined,
  now: number,
  source?: Source,
) => Caller | null | Promise<Caller | null>

/** `Bearer` in any case, one credential without whitespace (RFC 6750, 2.1; RFC 9110, 11.1). */
const bearer = /^bearer +([^\s,]+) *$/i

/** Longer ones are refused unread; identity tokens with hundreds of groups are shorter. */
const maxCredentialLength = 16_384
const maxHeaderLength = maxCredentialLength + 'Bearer '.length
const maxTwice = 2 * (maxCredentialLength + 'Bearer , '.length)

/** Verifies API keys and identity tokens separately. */
export function createAuthenticate(deps: { key: Verify; token: Verify }): Authenticate {
  return function authenticate(credential, now, source) {
    if (credential === undefined) return null
    const verify = looksLikeKey(credential) ? deps.key : deps.token
    return verify(credential, now, source)
  }
}

/**
 * The only credential of a request; undefined if there is none, or more than one. A blank one is none, and the
 * same one twice is one.
 */
export function credentialOf(presented: Presented): string | undefined {
  const [authorization, apiKey] = [given(presented.authorization), given(presented.apiKey)]
  const fromBearer = authorization && bearerOf(authorization)
  if (apiKey === undefined) return fromBearer
  if (apiKey.length > maxCredentialLength) return undefined
  if (authorization !== undefined && fromBearer !== apiKey) return undefined
  // An identity token alone is not accepted in this header, which its issuer's software does not use.
  return authorization !== undefined || looksLikeKey(apiKey) ? apiKey : undefined
}

/** Whether a request has no credential, not even an invalid one. */
export function isBare({ authorization, apiKey }: Presented): boolean {
  return given(authorization) === undefined && given(apiKey) === undefined
}

/** Blank, with or without the scheme. */
const blank = /^ *(?:bearer *)?$/i

/** The value of a header, which a client, or a proxy after it, may have sent twice; undefined if it is blank. */
function given(header: string | undefined): string | undefined {
  if (header === undefined || blank.test(header)) return undefined
  if (header.length > maxTwice || !header.includes(',')) return header
  const [first = '', ...others] = header.split(',').map((each) => each.trim())
  return others.every((each) => each === first) ? first : header
}

function bearerOf(authorization: string): string | undefined {
  return authorization.length > maxHeaderLength ? undefined : bearer.exec(authorization)?.[1]
}
