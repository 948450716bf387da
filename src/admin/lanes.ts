/** Doing many things side by side, a few at a time. */

export interface LaneOptions {
  /** How many run side by side. */
  readonly lanes: number
  /** One that takes longer (milliseconds) runs on, but no longer holds up those behind it. */
  readonly patienceMs: number
  /** Once aborted nothing more is begun. */
  readonly signal: AbortSignal
}

/**
 * Does `work` for every item, in order of the list. Ends when all of it has, or at once when the
 * signal aborts; what runs then is left to run. `work` must not reject.
 */
export async function inLanes<Item>(
  items: readonly Item[],
  { lanes, patienceMs, signal }: LaneOptions,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const waiting = items[Symbol.iterator]()
  const begun: Promise<void>[] = []

  async function run(): Promise<void> {
    for (const item of waiting) {
      if (signal.aborted) return
      const done = work(item)
      begun.push(done)
      await settledWithin(done, patienceMs)
    }
  }

  const all = Promise.all(Array.from({ length: lanes }, run)).then(() => Promise.all(begun))
  await Promise.race([all, aborted(signal)])
}

function settledWithin(done: Promise<void>, patienceMs: number): Promise<void> {
  return new Promise((settle) => {
    const timer = setTimeout(settle, patienceMs)
    void done.then(() => {
      clearTimeout(timer)
      settle()
    })
  })
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((settle) => {
    if (signal.aborted) settle()
    else signal.addEventListener('abort', () => settle(), { once: true })
  })
}
