/** The server's responses since its start, for tests to compare with the counted usage. */

import { isJson, type Json } from './dialect.ts'
import { readReported } from './usage.ts'

/** The number of requests and of tokens that answers reported. */
export interface Tally {
  /** Counts one request of a path; the returned function ends it, once. */
  open(path: string): (isAbandoned: boolean) => void
  /**
   * Records a usage before it is sent, and returns the value to pass as `earlier` if the same
   * answer sends another one: the later replaces the earlier, field by field. Its tokens are also
   * counted under the label, if it has one.
   */
  report(usage: unknown, earlier: Json, label?: string): Json
  /** Counts tokens under a label before they are sent, whether their usage is reported or not. */
  produce(tokens: number, label: string): void
  /** The tally as `GET /sim/requests` shows it. */
  read(): Json
  /** Sets all counts to 0, except the number of open requests. */
  reset(): void
}

/** Callers choose paths and labels; beyond this number new ones share the name "other". */
const MOST_NAMES = 10_000

function add(sums: Map<string, number>, label: string, more: number): void {
  const name = sums.has(label) || sums.size < MOST_NAMES ? label : 'other'
  sums.set(name, (sums.get(name) ?? 0) + more)
}

/** A tally that starts at 0. */
export function createTally(): Tally {
  let requests = new Map<string, number>()
  let labels = new Map<string, number>()
  let produced = new Map<string, number>()
  let abandoned = 0
  let completionTokens = 0
  let totalTokens = 0
  let open = 0
  return {
    open(path) {
      const name = requests.has(path) || requests.size < MOST_NAMES ? path : 'other'
      requests.set(name, (requests.get(name) ?? 0) + 1)
      open++
      return (isAbandoned) => {
        open--
        if (isAbandoned) abandoned++
      }
    },
    report(usage, earlier, label) {
      if (!isJson(usage)) return earlier
      const merged = { ...earlier, ...usage }
      const before = readReported(earlier)
      const after = readReported(merged)
      completionTokens += after.completionTokens - before.completionTokens
      const more = after.totalTokens - before.totalTokens
      totalTokens += more
      if (label !== undefined) add(labels, label, more)
      return merged
    },
    produce: (tokens, label) => add(produced, label, tokens),
    read: () => ({
      requests: Object.fromEntries(requests),
      ...(labels.size > 0 && { labels: Object.fromEntries(labels) }),
      ...(produced.size > 0 && { produced: Object.fromEntries(produced) }),
      open,
      abandoned,
      completionTokens,
      totalTokens,
    }),
    reset() {
      requests = new Map()
      labels = new Map()
      produced = new Map()
      abandoned = 0
      completionTokens = 0
      totalTokens = 0
    },
  }
}
