/** Recently verified identity tokens, by their hash; the tokens themselves are not kept. */

import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'

/** The most entries; the least recently used are evicted. */
const entries = 10_000

/** An empty cache. */
export function createVerdicts<Verdict>() {
  interface Entry {
    readonly verdict: Verdict
    readonly from: number
    readonly until: number
  }
  const kept = new LRUCache<string, Entry>({ max: entries })
  return {
    /** undefined: nothing is cached that is valid at `now`. */
    find(token: string, now: number): Verdict | undefined {
      const entry = kept.get(hashOfToken(token))
      // A clock that was set back must not extend an entry's life.
      return entry !== undefined && now >= entry.from && now < entry.until
        ? entry.verdict
        : undefined
    },
    /** Caches it from `now` until `until` (milliseconds since the epoch), which may be past. */
    keep(token: string, verdict: Verdict, now: number, until: number): void {
      if (until > now) kept.set(hashOfToken(token), { verdict, from: now, until })
    },
  }
}

/** The key of a token in caches. */
export function hashOfToken(token: string): string {
  return hash('sha256', token, 'base64')
}
