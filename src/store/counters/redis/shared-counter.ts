/** A counter and a report in the form of a store over Redis. */

import type { Report } from '../../counters.ts'
import { memberOf, minuteOf, neighbourOf } from '../reports.ts'
import type { Sender } from './batch-sender.ts'
import type { CounterView } from './view.ts'

export interface SharedCounter extends CounterView {
  readonly key: string
  /** The prefix of `key` in Redis. */
  readonly keyPrefix: string
  readonly sender: Sender
  /** Epoch of the store that the last sum came from; empty if there is none, or it had no epoch. */
  toldIn: string
  /** When a request last used it. */
  wantedAt: number
}

/** Times are monotonic (ms). */
export interface SharedReport {
  readonly counters: readonly SharedCounter[]
  readonly tokens: number
  readonly member: string
  /** Keys of its minute's set, and of a neighbouring set to look into as well. */
  readonly seenKey: string
  readonly neighbourKey: string | undefined
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
export function tellReport(
  { id, endedAt, onCounted }: Report,
  told: Pick<SharedReport, 'counters' | 'tokens' | 'endedAt' | 'sendBy'>,
  usual: Sender,
  intervals: number,
): void {
  const [first] = told.counters
  const member = memberOf(id)
  const tell = (sender: Sender, counters: readonly SharedCounter[], isFirst = true): void => {
    const neighbour = neighbourOf(endedAt)
    const report = {
      ...told,
      counters,
      member,
      onCounted: isFirst ? onCounted : undefined,
      gatewayEndedAt: Math.floor(endedAt),
      seenKey: sender.seenPrefix + minuteOf(endedAt),
      neighbourKey: neighbour === undefined ? undefined : sender.seenPrefix + neighbour,
    }
    sender.tell(report, intervals)
  }
  if (first === undefined) {
    tell(usual, [])
    return
  }
  // The same sender, except for counters of different users or subscriptions in a Cluster.
  if (told.counters.every(({ sender }) => sender === first.sender)) {
    tell(first.sender, told.counters)
    return
  }
  const groups = Map.groupBy(told.counters, ({ sender }) => sender)
  for (const [sender, counters] of groups) tell(sender, counters, sender === first.sender)
}
