/** Fills the cache of keys at the start. */

import type { FoundKey } from './store.ts'

/** `put` caches a key, unless it is cached. None is put that was evicted while it was read. */
export function createCacheWarmUp(put: (key: FoundKey) => boolean) {
  /** The hashes that the read in progress must not cache; undefined without one, or if it must cache none. */
  let evicted: Set<string> | undefined

  return {
    /** Puts the keys that are read, most recently used first; returns how many `put` accepted. One call at a time. */
    async run(reading: Promise<readonly FoundKey[]>): Promise<number> {
      evicted = new Set()
      try {
        let warmed = 0
        // The most recently used one is set last, and so evicted last.
        for (const key of (await reading).toReversed()) {
          if (evicted?.has(key.hash) === false && put(key)) warmed += 1
        }
        return warmed
      } finally {
        evicted = undefined
      }
    },
    evict: (hash: string): void => void evicted?.add(hash),
    evictAll(): void {
      evicted = undefined
    },
  }
}
