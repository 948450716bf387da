/** An API key → its hash → its record → Caller, with the groups of the key's creation. */

import { ServiceError } from '../formats/errors.ts'
import { toTimestamp } from '../formats/timestamp.ts'
import { endsSoonFrom, hashOfKey, type KeyMarkers, statusAt } from '../keys/rules/api-key.ts'
import type { KeyAnswer, KeyLookup, KnownKey } from '../keys/store.ts'
import type { Verify } from './authenticate.ts'
import type { Caller, KeyCaller } from './rules/caller.ts'

/** Records a use of a secret, by its hash, at an instant (milliseconds since the epoch). */
type NoteUse = (hash: string, now: number) => void

/**
 * Accepts keys that are in the store and active at this instant, and records their use. For a
 * complete key that has ended, throws `credential_invalid` with the reason and the time.
 */
export function createVerifyKey(
  keys: KeyLookup,
  markers: KeyMarkers,
  noteUse: NoteUse = () => {},
): Verify {
  function toCaller(found: KeyAnswer | undefined, hash: string, now: number): Caller | null {
    if (found === undefined) return null
    const ended = describeEnd(found, now)
    if (ended !== undefined) throw new ServiceError('credential_invalid', { message: ended })
    const { user, groups, id, subscription, capped, ageMs } = found
    noteUse(hash, now)
    const caller: KeyCaller =
      capped === undefined
        ? { by: 'key', user, groups, keyId: id, subscription }
        : { by: 'key', user, groups, keyId: id, subscription, caps: capped }
    const soonFrom = endsSoonFrom(found)
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
export function describeEnd(key: KnownKey, now: number): string | undefined {
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
