/** Recent verdicts about tokens and people, by the hash of their subject, which is not stored itself. */

import { hash } from 'node:crypto'
import { BoundedMap } from '../runtime/bounded-map.ts'

/** Maximum number of entries; at least half as many stay, those used last. */
export const maxVerdicts = 20_000

/** An empty cache. */
export function createVerdictCache<Verdict>() {
  interface Entry {
    readonly verdict: Verdict
    readonly from: number
    readonly until: number
  }
  const kept = new BoundedMap<string, Entry>(maxVerdicts)
  return {
    /** The cached verdict if it is valid at `now`, or was at most `graceMs` ago; undefined otherwise. */
    find(key: string, now: number, graceMs = 0): Verdict | undefined {
      const entry = kept.get(key)
      // A clock that was set back must not extend an entry's life.
      return entry !== undefined && now >= entry.from && now < entry.until + graceMs
        ? entry.verdict
        : undefined
    },
    /** Caches it from `now` until `until` (of the same clock, in milliseconds), which may be past. */
    keep(key: string, verdict: Verdict, now: number, until: number): void {
      if (until > now) kept.set(key, { verdict, from: now, until })
    },
    forget: (key: string): void => kept.delete(key),
  }
}

/** The key of a token in caches. */
export function hashOfToken(token: string): string {
  return hash('sha256', token, 'base64')
}
