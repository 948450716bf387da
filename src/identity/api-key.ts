/** An API key → its hash → its record → Caller, with the groups of the key's creation. */

import { hashOfKey, type KeyMarkers, statusAt } from '../core/api-key.ts'
import type { Caller } from '../core/caller.ts'
import type { KeyAnswer, KeyLookup } from '../store/api-keys.ts'
import type { Verify } from './authenticate.ts'

/** Takes note of a use of a key, by its id, at an instant (milliseconds since the epoch). */
export type NoteUse = (id: string, now: number) => void

/** Believes keys that are in the store and active at the very instant, and has that noted. */
export function createVerifyKey(
  keys: KeyLookup,
  markers: KeyMarkers,
  noteUse: NoteUse = () => {},
): Verify {
  function toCaller(found: KeyAnswer | undefined, now: number): Caller | null {
    if (found === undefined || statusAt(found, now) !== 'active') return null
    const { user, groups, id, subscription, ageMs } = found
    noteUse(id, now)
    const caller = { by: 'key', user, groups, keyId: id, subscription } as const
    return ageMs === undefined ? caller : { ...caller, keyAgeMs: ageMs }
  }

  return function verifyKey(key, now, source) {
    const hash = hashOfKey(key, markers)
    if (hash === undefined) return null
    const found = keys.findByHash(hash, source)
    if (found instanceof Promise) return found.then((late) => toCaller(late, now))
    return toCaller(found, now)
  }
}
