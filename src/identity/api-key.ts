/** An API key → its hash → its record → Caller, with the groups of the key's creation. */

import { type ApiKeyRecord, hashOfKey, type KeyMarkers, statusAt } from '../core/api-key.ts'
import type { Caller } from '../core/caller.ts'
import type { KeyLookup } from '../store/api-keys.ts'
import type { Verify } from './authenticate.ts'

/** Believes keys that are in the store and active at the very instant. */
export function createVerifyKey(keys: KeyLookup, markers: KeyMarkers): Verify {
  return function verifyKey(key, now) {
    const hash = hashOfKey(key, markers)
    if (hash === undefined) return null
    const record = keys.findByHash(hash)
    if (record instanceof Promise) return record.then((found) => toCaller(found, now))
    return toCaller(record, now)
  }
}

function toCaller(record: ApiKeyRecord | undefined, now: number): Caller | null {
  if (record === undefined || statusAt(record, now) !== 'active') return null
  const { user, groups, id, subscription } = record
  return { by: 'key', user, groups, keyId: id, subscription }
}
