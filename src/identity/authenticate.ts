/**
 * Authenticates a credential → Caller: an API key by its hash and record, with the groups of its creation, or an
 * identity token.
 */

import { ServiceError } from '../formats/errors.ts'
import { toTimestamp } from '../formats/time.ts'
import {
  endsSoonFrom,
  hashOfKey,
  type KeyMarkers,
  looksLikeKey,
  statusAt,
} from '../keys/rules/api-key.ts'
import type { KeyLookup, KnownKey, SourceAddress } from '../keys/store.ts'
import type { Caller, KeyCaller } from './rules/caller.ts'

/**
 * Verifies a credential of one kind; null if it is not valid. Returns without a promise if it can. Throws
 * `credential_invalid` if it can give a reason, and a code with status 503 if it cannot verify. `now` in milliseconds
 * since the epoch.
 */
export type VerifyCredential = (
  credential: string,
  now: number,
  source?: SourceAddress,
) => Caller | null | Promise<Caller | null>

/** The headers that may contain a credential, as sent. */
export interface PresentedHeaders {
  readonly authorization: string | undefined
  /** `x-api-key`, as sent by Anthropic's clients. */
  readonly apiKey: string | undefined
}

/**
 * As `VerifyCredential`, for the only credential of a request (`credentialOf`) of any kind; null also if it has none.
 */
export type Authenticate = (
  credential: string | undefined,
  now: number,
  source?: SourceAddress,
) => Caller | null | Promise<Caller | null>

/** `Bearer` in any case, one credential without whitespace (RFC 6750, 2.1; RFC 9110, 11.1). */
const bearer = /^bearer +([^\s,]+) *$/i

/** Longer ones are refused unread; identity tokens with hundreds of groups are shorter. */
const maxCredentialLength = 16_384
const maxHeaderLength = maxCredentialLength + 'Bearer '.length
const maxTwice = 2 * (maxCredentialLength + 'Bearer , '.length)

/** Verifies API keys and identity tokens separately. */
export function createAuthenticator(deps: {
  key: VerifyCredential
  token: VerifyCredential
}): Authenticate {
  return function authenticate(credential, now, source) {
    if (credential === undefined) return null
    const verify = looksLikeKey(credential) ? deps.key : deps.token
    return verify(credential, now, source)
  }
}

/**
 * The only credential of a request, or undefined if there is none or more than one. A blank one does not count, and a
 * repeated one counts once.
 */
export function credentialOf(presented: PresentedHeaders): string | undefined {
  const authorization = given(presented.authorization, 'bearer')
  const apiKey = given(presented.apiKey, '')
  const fromBearer = authorization && bearerOf(authorization)
  if (apiKey === undefined) return fromBearer
  if (apiKey.length > maxCredentialLength) return undefined
  if (authorization !== undefined && fromBearer !== apiKey) return undefined
  // An identity token alone is not accepted in this header, which its issuer's software does not use.
  return authorization !== undefined || looksLikeKey(apiKey) ? apiKey : undefined
}

/** Whether a request has no credential, not even an invalid one. */
export function hasNoCredential({ authorization, apiKey }: PresentedHeaders): boolean {
  return given(authorization, 'bearer') === undefined && given(apiKey, '') === undefined
}

/** How often a credential may be repeated; a header can consist of thousands of commas. */
const maxRepeats = 16

/** Blank, with or without the scheme. */
const blank = /^ *(?:bearer *)?$/i

/**
 * The value of a header, which a client, or a proxy after it, may have sent twice, perhaps once without a credential (as
 * `blankOne`, in any case); undefined if it is blank.
 */
function given(header: string | undefined, blankOne: string): string | undefined {
  if (header === undefined || blank.test(header)) return undefined
  if (header.length > maxTwice || !header.includes(',')) return header
  const parts = header.split(',', maxRepeats + 1)
  if (parts.length > maxRepeats) return header
  const all = parts.map((each) => each.trim())
  const [first = '', ...others] = all.filter((each) => each.toLowerCase() !== blankOne)
  return others.every((each) => each === first) ? first || undefined : header
}

function bearerOf(authorization: string): string | undefined {
  return authorization.length > maxHeaderLength ? undefined : bearer.exec(authorization)?.[1]
}

/** Records a use of a secret, by its hash, at an instant (milliseconds since the epoch). */
type NoteUse = (hash: string, now: number) => void

/**
 * Accepts keys that are in the store and active at this instant, and records their use. For a
 * complete key that has ended, throws `credential_invalid` with the reason and the time.
 */
export function createKeyVerifier(
  keys: KeyLookup,
  markers: KeyMarkers,
  noteUse: NoteUse = () => {},
): VerifyCredential {
  function toCaller(found: KnownKey | undefined, hash: string, now: number): Caller | null {
    if (found === undefined) return null
    const ended = describeInvalidKey(found, now)
    if (ended !== undefined) throw new ServiceError('credential_invalid', { message: ended })
    const { user, groups, id, subscription, capped, ageMs } = found
    noteUse(hash, now)
    const caller: KeyCaller =
      capped === undefined
        ? { by: 'key', user, groups, keyId: id, subscription }
        : { by: 'key', user, groups, keyId: id, subscription, caps: capped }
    const soonFrom = found.isPrevious ? now : endsSoonFrom(found)
    const isSoon = now >= soonFrom
    if (ageMs === undefined && !isSoon) {
      if (found.trustedUntil === undefined) return caller
      const until = Math.min(soonFrom, now + found.trustedUntil - performance.now())
      return { ...caller, remembered: { hash, until } }
    }
    return {
      ...caller,
      ...(ageMs !== undefined && { keyAgeMs: ageMs }),
      ...(isSoon && { endsSoonAt: found.expiresAt as number }),
    }
  }

  return function verifyKey(key, now, source) {
    const hash = hashOfKey(key, markers)
    if (hash === undefined) return null
    const found = keys.findByHash(hash, source)
    if (found instanceof Promise) return found.then((late) => toCaller(late, hash, now))
    return toCaller(found, hash, now)
  }
}

/** Why a key is not valid at this instant; undefined if it is. */
export function describeInvalidKey(key: KnownKey, now: number): string | undefined {
  const status = statusAt(key, now)
  if (status === 'active') return undefined
  const { expiresAt, revokedAt } = key
  if (status === 'revoked') {
    return `The API key was revoked${revokedAt === undefined ? '' : ` at ${toTimestamp(revokedAt)}`}.`
  }
  // A key stored as expired may have had a later date.
  if (expiresAt === null || expiresAt > now) return 'The API key has expired.'
  return `The API key expired at ${toTimestamp(expiresAt)}.`
}

/** The header that carries a sealed address (listing-seal.ts) to Check, and no further. */
export const listingHeader = 'listing-client'
