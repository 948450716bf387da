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
  /**
   * Told of the tokens of an answer, more than 0, once of all times that it is settled, in whichever
   * process: when the store has counted it by this telling. The store is the one place that knows.
   * A process that went by what its own stream tells would miss the answers of a stream that broke
   * with its process, and one that went by the journal as well would count most of them twice.
   */
  readonly onCounted: (usage: Usage, counted: Counted, by: Report['by']) => void
}

/** What an answer counted. */
export interface Settled {
  /** undefined: nothing, since it was no success or reported nothing usable. */
  readonly tokens: number | undefined
  /** A success whose model reported nothing usable; `tokens` is then an estimate, if anything. */
  readonly unusable: boolean
}

export interface Counted {
  readonly tokens: number
  /** By the length of the answer. */
  readonly estimated: boolean
}

export type Settle = (usage: Usage, by?: Report['by']) => void

/** Counts an answer whole, even across a limit: the next request is the one refused. */
export function createSettle(deps: SettleDeps): Settle {
  const { snapshot, counters, clock, unusableUsage, onSettled, onCounted } = deps

  function count(usage: Usage, counted: Counted, by: Report['by']): void {
    const { response } = usage
    const tell = () => onCounted(usage, counted, by)
    // What a journal tells happened when it says, so that one may be read again from its start.
    const now = by === 'journal' && response ? Math.min(response.endedAt, clock()) : clock()
    const report = response && { ...response, by, onCounted: tell }
    counters.add(countersOf(usage, snapshot()), counted.tokens, now, report)
    if (report === undefined) tell()
  }

  return function settle(usage, by = 'stream') {
    const reported = countedTokens(usage)
    const unusable = reported === undefined && isSuccess(usage)
    const tokens = unusable && unusableUsage === 'estimate' ? estimateTokens(usage) : reported
    if (tokens !== undefined && tokens > 0) count(usage, { tokens, estimated: unusable }, by)
    onSettled(usage, { tokens, unusable }, by)
  }
}
