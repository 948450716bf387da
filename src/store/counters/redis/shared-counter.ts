/** A counter and a report in the form of a store over Redis. */

import type { Report } from '../../counters.ts'
import { memberOf } from '../reports.ts'
import type { Sender } from './batch-sender.ts'
import type { CounterView } from './view.ts'

export interface SharedCounter extends CounterView {
  readonly key: string
  /** The prefix of `key` in Redis. */
  readonly keyPrefix: string
  readonly sender: Sender
  /** Epoch of the store that the last sum came from; empty if there is none, or it had no epoch. */
  sumEpoch: string
  /** When a request last used it. */
  wantedAt: number
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
 * `usual`, because it must still be known whether it has been counted. `intervals` as for a
 * counter.
 */
export function queueReport(
  { id, endedAt: gatewayEndedAt, onCounted }: Report,
  {
    counters,
    tokens,
    endedAt,
    sendBy,
  }: Pick<SharedReport, 'counters' | 'tokens' | 'endedAt' | 'sendBy'>,
  usual: () => Sender,
  intervals: number,
): void {
  const sender = counters[0]?.sender ?? usual()
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
    sender.report(shared, intervals)
    return
  }
  for (const [each, own] of Map.groupBy(counters, (counter) => counter.sender)) {
    each.report(
      { ...shared, counters: own, onCounted: each === sender ? onCounted : undefined },
      intervals,
    )
  }
}
