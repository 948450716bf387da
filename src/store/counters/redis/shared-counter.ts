/** A counter and a report, as a store over Redis keeps them, and what sends them. */

import type { Report } from '../../counters.ts'
import { memberOf, minuteOf, neighbourOf } from '../reports.ts'
import type { CounterView } from './view.ts'

export interface SharedCounter extends CounterView {
  readonly key: string
  /** What `key` begins with in Redis. */
  readonly keyPrefix: string
  readonly sender: Sender
  /** Session of the connection that Redis last told in. */
  toldIn: number
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
  /** What has not been sent by then is left to the journal; Infinity for the journal's own. */
  readonly sendBy: number
}

/** Sends what is added to its counters, exactly once. */
export interface Sender {
  /** What its sets of responses counted begin with. */
  readonly seenPrefix: string
  /** Has the counter flushed, and told anew, once so many intervals have passed since a batch. */
  schedule(counter: SharedCounter, intervals: number): void
  /** Has a response counted by the next batch, unless it is too old by then. */
  tell(report: SharedReport): void
  /** Whether the counter has to be kept for this sender's sake. */
  holds(counter: SharedCounter): boolean
  /** Settles once all that was scheduled and told until now is answered; rejects after a stop. */
  kept(): Promise<void>
  /**
   * Flushes what is left, for at most so long; sends nothing afterwards. Answers how many counters
   * it had to give up tokens of, reports aside: the journal has those.
   */
  stop(graceMs: number): Promise<number>
}

/** Has a response counted by the sender of each of the counters. */
export function tellReport(
  { id, endedAt }: Report,
  told: Pick<SharedReport, 'counters' | 'tokens' | 'endedAt' | 'sendBy'>,
): void {
  const [first] = told.counters
  if (first === undefined) return
  const member = memberOf(id)
  const tell = (sender: Sender, counters: readonly SharedCounter[]): void => {
    const neighbour = neighbourOf(endedAt)
    sender.tell({
      ...told,
      counters,
      member,
      seenKey: sender.seenPrefix + minuteOf(endedAt),
      neighbourKey: neighbour === undefined ? undefined : sender.seenPrefix + neighbour,
    })
  }
  // One sender but for counters of different users or subscriptions in a Cluster.
  if (told.counters.every(({ sender }) => sender === first.sender)) {
    tell(first.sender, told.counters)
    return
  }
  const groups = Map.groupBy(told.counters, ({ sender }) => sender)
  for (const [sender, counters] of groups) tell(sender, counters)
}
