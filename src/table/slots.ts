/**
 * The slots of records: in buckets of a table's file, found by digest and by key. The slot of an expired record may be
 * reused; nothing is written when a record expires.
 */

import { bucketOf, slotsOfBucket } from './rules/format.ts'

/** Maximum number of records per key. */
const mostOfKey = 64

/** Times are CLOCK_BOOTTIME in milliseconds. `most`: maximum number of records. */
export function createRecordSlots(buckets: number, most: number) {
  const slots = buckets * slotsOfBucket
  const byDigest = new Map<string, number>()
  const byKey = new Map<string, Set<number>>()
  const digests = new Array<string | undefined>(slots)
  const keys = new Array<string | undefined>(slots)
  const untils = new Float64Array(slots)
  let sweptTo = 0

  function remove(slot: number): void {
    const key = keys[slot]
    if (key === undefined) return
    byDigest.delete(digests[slot] as string)
    digests[slot] = undefined
    keys[slot] = undefined
    const own = byKey.get(key)
    own?.delete(slot)
    if (own?.size === 0) byKey.delete(key)
  }

  function sweep(found: Iterable<number>, now: number): void {
    for (const slot of found) if ((untils[slot] as number) <= now) remove(slot)
  }

  /** A free slot in the digest's bucket, or undefined if it is full. */
  function freeSlot(digest: Buffer, now: number): number | undefined {
    const first = bucketOf(digest, buckets) * slotsOfBucket
    for (let slot = first; slot < first + slotsOfBucket; slot += 1) {
      if (keys[slot] === undefined || (untils[slot] as number) <= now) return slot
    }
    return undefined
  }

  return {
    get size(): number {
      return byDigest.size
    },
    /** Assigns a slot to a record of this key; returns undefined if there is none. */
    place(digest: Buffer, key: string, now: number, until: number): number | undefined {
      const name = digest.toString('latin1')
      let slot = byDigest.get(name)
      if (slot === undefined) {
        const own = byKey.get(key)
        if (own !== undefined && own.size >= mostOfKey) sweep(own, now)
        if ((byKey.get(key)?.size ?? 0) >= mostOfKey) return undefined
        slot = freeSlot(digest, now)
        if (slot === undefined) return undefined
        remove(slot)
        if (byDigest.size >= most) return undefined
        byDigest.set(name, slot)
        digests[slot] = name
        keys[slot] = key
        const all = byKey.get(key)
        if (all === undefined) byKey.set(key, new Set([slot]))
        else all.add(slot)
      }
      untils[slot] = until
      return slot
    },
    /** The slots of a key's records. */
    ofKey: (key: string): Iterable<number> => byKey.get(key) ?? [],
    remove,
    /** Makes all records expire at this time; returns how many would have expired later. */
    endAll(at: number): number {
      let ended = 0
      for (const slot of byDigest.values()) {
        if ((untils[slot] as number) <= at) continue
        untils[slot] = at
        ended += 1
      }
      return ended
    },
    /** Forgets all records. */
    clear(): void {
      byDigest.clear()
      byKey.clear()
      digests.fill(undefined)
      keys.fill(undefined)
    },
    /** Frees expired slots among the next `count`, continuing where the last call ended. */
    sweep(count: number, now: number): void {
      const to = Math.min(slots, sweptTo + count)
      for (let slot = sweptTo; slot < to; slot += 1) {
        if (keys[slot] !== undefined && (untils[slot] as number) <= now) remove(slot)
      }
      sweptTo = to === slots ? 0 : to
    },
  }
}
