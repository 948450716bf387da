/** Runs many tasks, a few at a time. */

import { withAbort } from './with-abort.ts'
import { withTimeout } from './with-timeout.ts'

interface ConcurrencyOptions {
  /** The number of concurrent tasks. */
  readonly concurrency: number
  /** A task that takes longer (milliseconds) continues, but no longer blocks those behind it. */
  readonly maxBlockMs?: number
  /** After an abort no further tasks are started. */
  readonly signal?: AbortSignal
}

/**
 * Runs `work` for every item in the order of the list. Resolves when all are done, or at once when
 * the signal aborts; running tasks then continue. Rejects with the first task that does.
 */
export async function forEachConcurrently<Item>(
  items: readonly Item[],
  { concurrency, maxBlockMs, signal }: ConcurrencyOptions,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const waiting = items[Symbol.iterator]()
  const begun: Promise<void>[] = []

  async function run(): Promise<void> {
    for (const item of waiting) {
      if (signal?.aborted) return
      const done = work(item)
      begun.push(done)
      // It may reject when nobody waits for it any more.
      done.catch(() => {})
      await (maxBlockMs === undefined ? done : withTimeout(maxBlockMs, done))
    }
  }

  const all = Promise.all(Array.from({ length: concurrency }, run)).then(() => Promise.all(begun))
  await (signal === undefined ? all : withAbort(all, signal)).catch((error: unknown) => {
    if (!signal?.aborted) throw error
  })
}
