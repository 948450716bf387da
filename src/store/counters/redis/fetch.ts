/** Asks Redis for counters never seen, in one go however many requests wait. */

import type { Sender } from './batch-sender.ts'
import type { SharedCounter } from './shared-counter.ts'
import { takeAnswer } from './view.ts'

export interface CounterFetchOptions {
  readonly monotonic: () => number
  /** Who could not reach Redis lately. */
  readonly failing: ReadonlySet<unknown>
  readonly onOutcome: (who: unknown, error?: unknown) => void
}

/** Counters in one read at most: a script blocks Redis while it runs. */
const readSize = 512

/** Settles, and never rejects, once Redis has been asked for these counters. */
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
        // Of a batch that is repeated nobody knows whether it is in this answer already.
        if (counter.known || (counter.sending > 0 && failing.has(sender))) return
        const [used, leftMs] = [answer[2 * i + 2] as number, answer[2 * i + 3] as number]
        takeAnswer(counter, { used, leftMs, acknowledged: 0 }, now)
        // What holds tokens that are under way is no sum to offer beside them.
        counter.toldIn = counter.sending > 0 ? '' : epoch
      })
    } catch (error) {
      onOutcome(sender, error)
      // The sender goes on asking, and so finds out when Redis is back.
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
