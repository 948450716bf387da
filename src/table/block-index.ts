/** The index in which a script finds the number of a block by its name: in buckets, like records. */

import { bucketOf, slotsOfBucket } from './rules/format.ts'

interface NamesOptions {
  readonly buckets: number
  readonly write: (slot: number, name: Buffer, block: number) => void
  readonly clear: (slot: number) => void
}

export function createBlockIndex({ buckets, write, clear }: NamesOptions) {
  const taken = new Set<number>()
  return {
    /** Assigns a slot to this block; returns undefined if its bucket is full. */
    place(name: Buffer, block: number): number | undefined {
      const first = bucketOf(name, buckets) * slotsOfBucket
      for (let slot = first; slot < first + slotsOfBucket; slot += 1) {
        if (taken.has(slot)) continue
        write(slot, name, block)
        taken.add(slot)
        return slot
      }
      return undefined
    },
    remove(slot: number): void {
      clear(slot)
      taken.delete(slot)
    },
  }
}
