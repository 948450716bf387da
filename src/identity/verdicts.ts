/** Which identity tokens were believed lately, by their hash; the tokens themselves are not kept. */

import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'

/** Remembered at most; the least used make room. */
const entries = 10_000

/** An empty memory. */
export function createVerdicts<Verdict>() {
  interface Entry {
    readonly verdict: Verdict
    readonly from: number
    readonly until: number
  }
  const kept = new LRUCache<string, Entry>({ max: entries })
  return {
    /** undefined: nothing is remembered that holds at `now`. */
    find(token: string, now: number): Verdict | undefined {
      const entry = kept.get(hashOfToken(token))
      // A clock that was set back makes nothing live longer.
      return entry !== undefined && now >= entry.from && now < entry.until
        ? entry.verdict
        : undefined
    },
    /** Remembers it from `now` until `until` (milliseconds since the epoch), which may be past. */
    keep(token: string, verdict: Verdict, now: number, until: number): void {
      if (until > now) kept.set(hashOfToken(token), { verdict, from: now, until })
    },
  }
}

/** What a token is known by where it is remembered. */
export function hashOfToken(token: string): string {
  return hash('sha256', token, 'base64')
}
