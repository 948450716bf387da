/** Fills the cache of keys at the start. */

import type { FoundKey } from './store.ts'

/** `put` caches a key, unless it is cached. None is put that was evicted while it was read. */
export function createWarmUp(put: (key: FoundKey) => boolean) {
  /** For each read in progress, the hashes that it must not cache. */
  const reads = new Set<{ readonly evicted: Set<string>; isVoid: boolean }>()

  return {
    /** Puts the keys that are read, most recently used first; returns how many `put` accepted. */
    async run(reading: Promise<readonly FoundKey[]>): Promise<number> {
      const read = { evicted: new Set<string>(), isVoid: false }
      reads.add(read)
      try {
        const found = await reading
        if (read.isVoid) return 0
        // The most recently used one is set last, and so evicted last.
        let warmed = 0
        for (const key of found.toReversed()) {
          if (!read.evicted.has(key.hash) && put(key)) warmed += 1
        }
        return warmed
      } finally {
        reads.delete(read)
      }
    },
    evict(hash: string): void {
      for (const { evicted } of reads) evicted.add(hash)
    },
    evictAll(): void {
      for (const read of reads) read.isVoid = true
    },
  }
}
