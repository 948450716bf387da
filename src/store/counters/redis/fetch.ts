/** Reads unknown counters from Redis, in one go for all waiting requests. */

import type { Sender, SharedCounter } from './shared-counter.ts'
import { takeAnswer } from './view.ts'

export interface CounterFetchOptions {
  readonly monotonic: () => number
  /** The senders that could not reach Redis recently. */
  readonly failing: ReadonlySet<unknown>
  readonly onOutcome: (who: unknown, error?: unknown) => void
}

/** The most counters in one read: a script blocks Redis while it runs. */
const readSize = 512

/** Resolves once Redis has been asked for these counters; never rejects. */
export function createCounterFetch(
  options: CounterFetchOptions,
): (counters: readonly SharedCounter[]) => Promise<void> {
  const { monotonic, failing, onOutcome } = options
  let unknown = new Set<SharedCounter>()
  let fetching: Promise<void> | undefined

  async function fetchAll(asked: ReadonlySet<SharedCounter>): Promise<void> {
    const reads: Promise<void>[] = []
    for (const [sender, group] of Map.groupBy(asked, (counter) => counter.sender)) {
      for (let i = 0; i < group.length; i += readSize) {
        reads.push(fetch(sender, group.slice(i, i + readSize)))
      }
    }
    await Promise.all(reads)
  }

  async function fetch(sender: Sender, group: readonly SharedCounter[]): Promise<void> {
    try {
      const { answer, epoch } = await sender.ask(group)
      const now = monotonic()
      group.forEach((counter, i) => {
        // While a batch is repeated, it is unknown whether this response already includes it.
        if (counter.known || (counter.sending > 0 && failing.has(sender))) return
        const [used, leftMs] = [answer[2 * i + 2] as number, answer[2 * i + 3] as number]
        takeAnswer(counter, { used, leftMs, acknowledged: 0 }, now)
        // A sum that may include tokens in flight must not be offered beside them.
        counter.sumEpoch = counter.sending > 0 ? '' : epoch
      })
    } catch (error) {
      onOutcome(sender, error)
      // The sender retries, and so detects when Redis is back.
      for (const counter of group) sender.schedule(counter, 1)
    }
  }

  return (counters) => {
    for (const counter of counters) unknown.add(counter)
    fetching ??= new Promise((resolve) => {
      setImmediate(() => {
        const asked = unknown
        unknown = new Set()
        fetching = undefined
        resolve(fetchAll(asked))
      })
    })
    return fetching
  }
}
