/** Sums of the charges of limits by name, between two steps of the ledger. */

import { hourMs } from '../../formats/time.ts'
import type { TimeRange } from '../../formats/time-range.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { boundsAt, windowText } from '../../ratelimit/rules/windows.ts'
import { type CountableLine, namedLimitCharges } from '../rules/line-charges.ts'
import type { LimitRow } from '../store.ts'
import { addCharge, mergeRow } from './merge.ts'

const always: TimeRange = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY }

/** `within`: only charges of this time count. */
export function createLimitSums(within = always) {
  let rows = new Map<string, LimitRow>()
  return {
    /** The number of rows. */
    get size(): number {
      return rows.size
    },
    /** Adds the charges of a line; later times than `latest` become `latest`. */
    add(line: CountableLine, latest: number): void {
      for (const { limit, whom, counter, at: charged, amount } of namedLimitCharges(line)) {
        const at = Math.min(charged, latest)
        if (at < within.from || at >= within.to) continue
        const { resource, name, kind, per, window } = limit
        const begin = beginOf(counter, at)
        const row = {
          resource: per === 'key' ? `key/${line.usage.keyId}` : resource,
          ...{ name, kind, per, whom, window: windowText(window), begin },
          ...{ amount, first: at, last: at },
        }
        mergeRow(rows, `${begin}\n${per}\n${counter.key}`, row, addCharge)
      }
    },
    /** Returns the rows so far, and starts with none. */
    drain(): readonly LimitRow[] {
      const drained = [...rows.values()]
      rows = new Map()
      return drained
    },
  }
}

/** Windows shorter than an hour are summed by the hour, because there may be one for each second. */
function beginOf({ window, owner }: Counter, at: number): number {
  if ('ms' in window && window.ms < hourMs) return at - (at % hourMs)
  return boundsAt(window, owner, at).start
}
