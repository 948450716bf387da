/** What the server has done since its start, so that a test can compare it with what was counted. */

import { isJson, type Json } from './dialect.ts'
import { readReported } from './usage.ts'

/** A running account of requests and of the tokens that answers reported. */
export interface Tally {
  /** Counts one request of a path; the returned function ends it, once. */
  open(path: string): (isAbandoned: boolean) => void
  /**
   * Takes note of a usage about to be sent, and returns what to pass as `earlier` when the same
   * answer sends another: the later replaces the earlier, field by field.
   */
  report(usage: unknown, earlier: Json): Json
  /** The account as `GET /sim/requests` shows it. */
  read(): Json
  /** Sets all counts to 0, but for the requests that are open. */
  reset(): void
}

/** Paths come from callers; from here on new ones share the name "other". */
const MOST_PATHS = 1000

/** A tally that begins at 0. */
export function createTally(): Tally {
  let requests = new Map<string, number>()
  let abandoned = 0
  let completionTokens = 0
  let totalTokens = 0
  let open = 0
  return {
    open(path) {
      const name = requests.has(path) || requests.size < MOST_PATHS ? path : 'other'
      requests.set(name, (requests.get(name) ?? 0) + 1)
      open++
      return (isAbandoned) => {
        open--
        if (isAbandoned) abandoned++
      }
    },
    report(usage, earlier) {
      if (!isJson(usage)) return earlier
      const merged = { ...earlier, ...usage }
      const before = readReported(earlier)
      const after = readReported(merged)
      completionTokens += after.completionTokens - before.completionTokens
      totalTokens += after.totalTokens - before.totalTokens
      return merged
    },
    read: () => ({
      requests: Object.fromEntries(requests),
      open,
      abandoned,
      completionTokens,
      totalTokens,
    }),
    reset() {
      requests = new Map()
      abandoned = 0
      completionTokens = 0
      totalTokens = 0
    },
  }
}
