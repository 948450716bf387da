/** Usage → counters. All charging happens here. */

import type { Snapshot } from '../core/decision/snapshot.ts'
import {
  type Charge,
  chargeOf,
  countersOf,
  type UnusableUsage,
  type Usage,
} from '../core/decision/usage.ts'
import type { CounterStore, Report } from '../store/counters.ts'
import type { Held } from './held.ts'

export interface SettleDeps {
  readonly snapshot: () => Snapshot
  readonly counters: CounterStore
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  readonly unusableUsage: UnusableUsage
  /** For subscriptions that reserve. */
  readonly held?: Held | undefined
  /**
   * Called for every usage with the tokens counted for it; undefined if none could be. A response
   * that the journal reports as well is settled twice and counted once.
   */
  readonly onSettled: (usage: Usage, settled: Charge, by: Report['by']) => void
  /**
   * Called with the tokens of a response, if above 0, exactly once across all its reports and
   * processes: when the store has counted it by this report. Only the store can decide that. A
   * process that relied on its own stream would miss responses of a stream that broke with its
   * process, and one that also relied on the journal would count most responses twice.
   */
  readonly onCounted: (usage: Usage, counted: Counted, by: Report['by']) => void
}

export interface Counted {
  readonly tokens: number
  /** How many of them are estimated. */
  readonly estimated: number
}

export type Settle = (usage: Usage, by?: Report['by']) => void

/** Counts a whole response, even beyond a limit: the next request is refused instead. */
export function createSettle(deps: SettleDeps): Settle {
  const { snapshot, counters, clock, unusableUsage, held, onSettled, onCounted } = deps

  function count(usage: Usage, counted: Counted, by: Report['by']): void {
    const { response } = usage
    const notify = () => onCounted(usage, counted, by)
    // A journal line is counted at its own time, so that a journal can be read again from its
    // start.
    const now = by === 'journal' && response ? Math.min(response.endedAt, clock()) : clock()
    const report = response && { id: response.id, endedAt: response.endedAt, by, onCounted: notify }
    const all = countersOf(usage, snapshot())
    counters.add(held?.charged(usage, all, now) ?? all, counted.tokens, now, report)
    if (report === undefined) notify()
  }

  return function settle(usage, by = 'stream') {
    const charge = chargeOf(usage, unusableUsage)
    const { tokens, estimated } = charge
    if (tokens !== undefined && tokens > 0) count(usage, { tokens, estimated }, by)
    if (held !== undefined) {
      held.release(usage)
      held.learn(usage, estimated > 0 ? undefined : tokens)
    }
    onSettled(usage, charge, by)
  }
}
