/** A counter and a report in the form of a store over Redis. */

import type { Report } from '../../counters.ts'
import { memberOf } from '../reports.ts'
import type { CounterAnswer } from './scripts.ts'
import type { CounterView } from './view.ts'

/** Sends what is added to its counters, exactly once (batch-sender.ts). */
export interface Sender {
  /**
   * Queues the counter; it is flushed and refreshed at most this many intervals after the last
   * batch.
   */
  schedule(counter: SharedCounter, intervals: number): void
  /** Queues a response for the next batch, unless it is too old by then. */
  report(report: SharedReport): void
  /**
   * Reads counters outside its batches. `epoch` is that of the store that responds, empty without
   * one.
   */
  ask(
    counters: readonly SharedCounter[],
  ): Promise<{ readonly epoch: string; readonly answer: CounterAnswer }>
  /** Its process has reset the counter as of `at` (ms). */
  noteReset(key: string, at: number): void
  /** Checks the identity of the store, unless Redis has responded recently. */
  beat(): void
  /** Whether the counter must be kept because this sender needs it. */
  holds(counter: SharedCounter): boolean
  /** Resolves once everything queued until now is acknowledged; rejects after a stop. */
  kept(): Promise<void>
  /**
   * Flushes the rest, for at most this long, and sends nothing afterwards. Returns the number of
   * counters whose tokens were lost, not counting reports, which the journal has.
   */
  stop(graceMs: number): Promise<number>
}

export interface SharedCounter extends CounterView {
  readonly key: string
  /** The prefix of `key` in Redis. */
  readonly keyPrefix: string
  readonly sender: Sender
  /** Epoch of the store that the last sum came from; empty if there is none, or it had no epoch. */
  sumEpoch: string
  /** When a request last used it. */
  lastUsedAt: number
  /** The number of reports queued with its sender that count in it. */
  named: number
  /** Whether it waits for its sender's next batch. */
  isDue: boolean
  /** Its index in the batch that its sender has taken last, if it is in it. */
  place: number
}

/** Times are monotonic (ms). Thousands wait for one batch, so it holds no more than the batch needs. */
export interface SharedReport {
  readonly counters: readonly SharedCounter[]
  readonly tokens: number
  readonly member: string
  readonly endedAt: number
  /** The same by the gateway's clock, in whole milliseconds. */
  readonly gatewayEndedAt: number
  /** If it has not been sent by then, it is left to the journal; Infinity for the journal's own. */
  readonly sendBy: number
  readonly onCounted?: (() => void) | undefined
}

/**
 * Queues a response with the sender of each of its counters. If no counter is open any more, with
 * `usual`, because it must still be known whether it has been counted.
 */
export function queueReport(
  { id, endedAt: gatewayEndedAt, onCounted }: Report,
  {
    counters,
    tokens,
    endedAt,
    sendBy,
  }: Pick<SharedReport, 'counters' | 'tokens' | 'endedAt' | 'sendBy'>,
  fallback: () => Sender,
): void {
  const sender = counters[0]?.sender ?? fallback()
  const shared: SharedReport = {
    counters,
    tokens,
    member: memberOf(id),
    endedAt,
    gatewayEndedAt: Math.floor(gatewayEndedAt),
    sendBy,
    onCounted,
  }
  // The same sender, except for counters of different users or subscriptions in a Cluster.
  if (counters.every((counter) => counter.sender === sender)) {
    sender.report(shared)
    return
  }
  for (const [each, own] of Map.groupBy(counters, (counter) => counter.sender)) {
    each.report({ ...shared, counters: own, onCounted: each === sender ? onCounted : undefined })
  }
}
