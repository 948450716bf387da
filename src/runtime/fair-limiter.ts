/** Limits slow work: few tasks at a time, taken in turn from the owners that have tasks waiting. */

import { createFairQueue, type FairQueueSizes } from './fair-queue.ts'

interface FairLimiterOptions extends FairQueueSizes {
  /** Maximum number of tasks of all owners together. */
  readonly atOnce: number
  /** Whether an owner has one task at a time. */
  readonly oneEach?: boolean
  /** How long a call waits for its turn, in milliseconds; by default without limit. */
  readonly timeoutMs?: number
  /** The error of a call that is rejected because the queue is full, or that timed out in it. */
  readonly refusal: () => Error
}

interface Task {
  readonly owner: string
  readonly run: () => Promise<void>
  readonly refuse: () => void
}

/** Runs the work when it is its owner's turn. A call that is refused rejects, and its work is not started. */
export function createFairLimiter(options: FairLimiterOptions) {
  const { atOnce, oneEach = false, timeoutMs, refusal } = options
  const queue = createFairQueue<Task>(options)
  const busy = new Set<string>()
  let running = 0

  function begin(): void {
    while (running < atOnce) {
      const next = queue.take((owner) => busy.has(owner))
      if (next === undefined) return
      running += 1
      if (oneEach) busy.add(next.owner)
      void next.run().finally(() => {
        running -= 1
        // Other waiting owners come before the calls that it made meanwhile.
        if (busy.delete(next.owner)) queue.defer(next.owner)
        begin()
      })
    }
  }

  return function inTurn<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    let isRefused = false
    function refuse(): void {
      isRefused = true
      reject(refusal())
    }
    const timer = timeoutMs === undefined ? undefined : setTimeout(refuse, timeoutMs)
    async function run(): Promise<void> {
      clearTimeout(timer)
      // The turn ends when the work has ended, even with an error.
      if (!isRefused) await work().then(resolve, reject)
    }
    queue.offer(owner, { owner, run, refuse })?.refuse()
    begin()
    return promise
  }
}
