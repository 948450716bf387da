/** Lets one line about a thing into the log in a while, however often there is something to say. */

/** Things that are remembered; of more of them the oldest are forgotten. */
const mostKeys = 100_000

/** At most one line about each thing in so many milliseconds. */
export function createLineLimit(everyMs: number) {
  const lines = new Map<string, { readonly at: number; leftOut: number }>()
  return {
    /**
     * How many lines about `key` were left out since the last one; undefined: leave this one out too.
     * `now` in milliseconds. A clock that was set back lets the next one pass.
     */
    pass(key: string, now: number): number | undefined {
      const last = lines.get(key)
      if (last !== undefined && Math.abs(now - last.at) < everyMs) {
        last.leftOut += 1
        return undefined
      }
      lines.set(key, { at: now, leftOut: 0 })
      const [oldest] = lines.keys()
      if (lines.size > mostKeys && oldest !== undefined) lines.delete(oldest)
      return last?.leftOut ?? 0
    },
  }
}
