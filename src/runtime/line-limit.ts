/** Limits repeated log lines about one subject. */

import { BoundedMap } from './bounded-map.ts'

/** Maximum number of subjects; beyond it the oldest are forgotten. */
const maxKeys = 100_000

/** Maximum number of lines of one kind per change; the internal API lists all. */
export const maxLinesShown = 100

/** At most one line about each subject in this many milliseconds. */
export function createLineLimit(everyMs: number) {
  const lines = new BoundedMap<string, { readonly at: number; leftOut: number }>(maxKeys)
  return {
    /**
     * The number of lines about `key` that were suppressed since the last one, or undefined if this one must be
     * suppressed too. `now` in milliseconds. After a clock is set back, the next line passes.
     */
    pass(key: string, now: number): number | undefined {
      const last = lines.get(key)
      if (last !== undefined && Math.abs(now - last.at) < everyMs) {
        last.leftOut += 1
        return undefined
      }
      lines.set(key, { at: now, leftOut: 0 })
      return last?.leftOut ?? 0
    },
  }
}
