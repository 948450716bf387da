import type { ExactInt } from '../../src/formats/exact.ts'
import { maxResets, type ResettableCounters } from '../../src/ratelimit/counters.ts'
import type { HeldWindow, KnownWindows } from '../../src/ratelimit/holds/windows.ts'
import type { Counter } from '../../src/ratelimit/rules/counter.ts'
import { createWindowSums } from '../../src/ratelimit/rules/sums.ts'
import { knownUse } from '../../src/ratelimit/rules/tally.ts'
import type { CounterReset } from '../../src/ratelimit/rules/windows.ts'

export interface TestCounters extends ResettableCounters {
  /** Adds what a line would that ended at this instant (milliseconds since the epoch). */
  add(counters: readonly Counter[], amount: ExactInt, at: number): void
  /** For holds beside these counters. */
  readonly windows: KnownWindows
}

/** Counters of one process without files and store: nothing is used but what a test adds. */
export function createTestCounters(): TestCounters {
  const resets = new Map<string, readonly CounterReset[]>()
  const sums = createWindowSums(resets, () => 0)

  function windowOf(counter: Counter, at: number): HeldWindow {
    const tally = sums.at(counter, at)
    const used = knownUse(tally)
    return { id: tally.id, used, own: used, resetsAt: tally.end, isKnown: true }
  }

  function read(counters: readonly Counter[], now: number) {
    return sums.allAt(counters, now).map((tally) => {
      return { used: knownUse(tally), resetsAt: tally.end }
    })
  }

  return {
    read,
    readFresh: async (counters, now) => read(counters, now),
    async reset(counters, at, used = 0) {
      if (counters.length > maxResets) throw new Error(`more than ${maxResets} counters`)
      for (const { key } of counters) resets.set(key, [...(resets.get(key) ?? []), { at, used }])
    },
    add: (counters, amount, at) => void sums.count({ at, amount, counters }, at),
    windows: (counters, at) => counters.map((counter) => windowOf(counter, at)),
  }
}
