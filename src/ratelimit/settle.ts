/** Usage → counters: the one place that charges. */

import type { Snapshot } from '../core/snapshot.ts'
import { countedTokens, countersOf, type Usage } from '../core/usage.ts'
import type { CounterStore } from '../store/counters.ts'

export interface SettleDeps {
  readonly snapshot: () => Snapshot
  readonly counters: CounterStore
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Told of every usage and the tokens counted for it; undefined when none could be. */
  readonly onSettled: (usage: Usage, tokens: number | undefined) => void
}

export type Settle = (usage: Usage) => void

/** Counts an answer whole, even across a limit: the next request is the one refused. */
export function createSettle({ snapshot, counters, clock, onSettled }: SettleDeps): Settle {
  return function settle(usage) {
    const tokens = countedTokens(usage)
    if (tokens !== undefined && tokens > 0) {
      counters.add(countersOf(usage, snapshot()), tokens, clock())
    }
    onSettled(usage, tokens)
  }
}
