/** A counter and a report, as a store over Redis keeps them. */

import type { Report } from '../../counters.ts'
import { memberOf, minuteOf, neighbourOf } from '../reports.ts'
import type { Sender } from './batch-sender.ts'
import type { CounterView } from './view.ts'

export interface SharedCounter extends CounterView {
  readonly key: string
  /** What `key` begins with in Redis. */
  readonly keyPrefix: string
  readonly sender: Sender
  /** Epoch of the store that last told; empty where none did, or none that has one. */
  toldIn: string
  /** When a request last needed it. */
  wantedAt: number
}

/** Times are of the clock that never steps (ms). */
export interface SharedReport {
  readonly counters: readonly SharedCounter[]
  readonly tokens: number
  readonly member: string
  /** Keys of its minute's set, and of a neighbour's to look into besides. */
  readonly seenKey: string
  readonly neighbourKey: string | undefined
  readonly endedAt: number
  /** The same by the gateway's clock, in whole milliseconds. */
  readonly gatewayEndedAt: number
  /** What has not been sent by then is left to the journal; Infinity for the journal's own. */
  readonly sendBy: number
  readonly onCounted?: (() => void) | undefined
}

/**
 * Has a response counted by the sender of each of the counters; by `usual` where no counter is open
 * any more, since there is still to be known whether it has been counted. `intervals` as for a counter.
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
  // One sender but for counters of different users or subscriptions in a Cluster.
  if (told.counters.every(({ sender }) => sender === first.sender)) {
    tell(first.sender, told.counters)
    return
  }
  const groups = Map.groupBy(told.counters, ({ sender }) => sender)
  for (const [sender, counters] of groups) tell(sender, counters, sender === first.sender)
}
