/** Usage → counters: the one place that charges. */

import type { Snapshot } from '../core/snapshot.ts'
import {
  countedTokens,
  countersOf,
  estimateTokens,
  isSuccess,
  type UnusableUsage,
  type Usage,
} from '../core/usage.ts'
import type { CounterStore, Report } from '../store/counters.ts'

export interface SettleDeps {
  readonly snapshot: () => Snapshot
  readonly counters: CounterStore
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  readonly unusableUsage: UnusableUsage
  /**
   * Told of every usage and the tokens counted for it; undefined when none could be. A response
   * that is told of by the journal as well is settled twice, and counted once.
   */
  readonly onSettled: (usage: Usage, settled: Settled, by: Report['by']) => void
}

/** What an answer counted. */
export interface Settled {
  /** undefined: nothing, since it was no success or reported nothing usable. */
  readonly tokens: number | undefined
  /** A success whose model reported nothing usable; `tokens` is then an estimate, if anything. */
  readonly unusable: boolean
}

export type Settle = (usage: Usage, by?: Report['by']) => void

/** Counts an answer whole, even across a limit: the next request is the one refused. */
export function createSettle(deps: SettleDeps): Settle {
  const { snapshot, counters, clock, unusableUsage, onSettled } = deps
  return function settle(usage, by = 'stream') {
    const reported = countedTokens(usage)
    const unusable = reported === undefined && isSuccess(usage)
    const tokens = unusable && unusableUsage === 'estimate' ? estimateTokens(usage) : reported
    if (tokens !== undefined && tokens > 0) {
      const { response } = usage
      const report = response && { ...response, by }
      // What a journal tells happened when it says, so that one may be read again from its start.
      const now = by === 'journal' && response ? Math.min(response.endedAt, clock()) : clock()
      counters.add(countersOf(usage, snapshot()), tokens, now, report)
    }
    onSettled(usage, { tokens, unusable }, by)
  }
}
