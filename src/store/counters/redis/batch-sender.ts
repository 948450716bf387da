/**
 * Sends what was added, batch after batch, exactly once: one batch is under way at a time, and is
 * repeated under the same number until Redis answers. Every batch is a refresh too. A batch is for
 * the store that it was made for: another one is first told what was known (restore.ts).
 */

import { createBacklog, type Holding } from './backlog.ts'
import { seenPrefixOf } from './keys.ts'
import type { SharedCounter, SharedReport } from './shared-counter.ts'
import { createStoreLink, type StoreLinkOptions } from './store-link.ts'

export interface SenderOptions extends StoreLinkOptions {
  readonly flushMs: number
  /** Told of each attempt, with the error of a failed one. */
  readonly onOutcome: (who: unknown, error?: unknown) => void
}

/** Sends what is added to its counters, exactly once. */
export type Sender = ReturnType<typeof createBatchSender>

const firstRetryMs = 50
const longestRetryMs = 1_000
const stoppingRetryMs = 25
/** Silence after which a beat asks. */
const silenceMs = 1_000

/** A sender of its own mark. */
export function createBatchSender(options: SenderOptions) {
  const { flushMs, monotonic, onOutcome } = options
  const link = createStoreLink({
    ...options,
    onOther() {
      options.onOther()
      // It is to be told at once, whether there is something to send or not.
      setImmediate(begin)
    },
  })
  const backlog = createBacklog()
  let underWay: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let flushAt = Number.POSITIVE_INFINITY
  /** How many intervals the most urgent of those that wait may wait. */
  let patience = Number.POSITIVE_INFINITY
  let startedAt = Number.NEGATIVE_INFINITY
  let state: 'running' | 'stopping' | 'stopped' = 'running'
  let wake = (): void => {}

  function isStopped(): boolean {
    return state === 'stopped'
  }

  /** What the next batch may hold. */
  function holding(): Holding {
    return monotonic() >= link.matureAt ? 'all' : 'counters'
  }

  /**
   * The first batch after a pause goes at once, the others in intervals, unless there is enough for
   * a whole one.
   */
  function arm(intervals: number): void {
    patience = Math.min(patience, intervals)
    if (underWay !== undefined || state !== 'running') return
    const now = holding()
    let at = backlog.isFull(now) ? 0 : startedAt + patience * flushMs
    if (backlog.isEmpty(now) && link.epoch !== '') at = Math.max(at, link.matureAt)
    if (at >= flushAt) return
    flushAt = at
    clearTimeout(timer)
    const waitMs = at - monotonic()
    // A timer waits for a millisecond at least.
    if (waitMs > 0) timer = setTimeout(flush, waitMs)
    else setImmediate(flush)
  }

  function flush(): void {
    clearTimeout(timer)
    flushAt = Number.POSITIVE_INFINITY
    if (!backlog.isEmpty()) begin()
  }

  function begin(): void {
    if (underWay !== undefined || state === 'stopped') return
    patience = Number.POSITIVE_INFINITY
    underWay = sendBatch().finally(() => {
      underWay = undefined
      // What no batch had room for waits for one interval; what came since has said.
      if (!backlog.isEmpty()) arm(patience === Number.POSITIVE_INFINITY ? 1 : patience)
    })
  }

  /** The next batch, which is made anew when the store turns out to be another one. */
  async function sendBatch(): Promise<void> {
    let isDone = false
    while (!isDone && (await repeat(link.restore))) isDone = await deliver()
  }

  /** Tries until it succeeds; false where it was stopped before. */
  async function repeat(attempt: () => Promise<void>, onFailure = () => {}): Promise<boolean> {
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(longestRetryMs, 2 * retryMs)) {
      startedAt = monotonic()
      try {
        await attempt()
        return true
      } catch (error) {
        onOutcome(sender, error)
        onFailure()
        if (state === 'stopped') return false
        backlog.leaveOld(monotonic())
        await pause(state === 'stopping' ? stoppingRetryMs : retryMs)
      }
    }
  }

  /** Whether there is no more to do: the store has answered for which the batch was made. */
  async function deliver(): Promise<boolean> {
    if (isStopped()) return true
    // Somebody else may have heard of another store since.
    if (!link.isRestored) return false
    const madeFor = link.epoch
    const batch = backlog.take(monotonic(), holding())
    const number = link.nextNumber()
    let isAnswered = false
    let isDoubtful = false
    await repeat(
      async () => {
        if (link.epoch !== madeFor) return
        isAnswered = (await link.send(batch, number)) === madeFor
        onOutcome(sender)
      },
      () => {
        isDoubtful = true
      },
    )
    if (isAnswered) backlog.settle()
    if (isAnswered || isStopped()) return true
    if (isDoubtful) link.doubt(batch)
    backlog.unwind(batch, isDoubtful, monotonic())
    return false
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const pausing = setTimeout(resolve, ms)
      pausing.unref()
      wake = () => {
        clearTimeout(pausing)
        resolve()
      }
    })
  }

  async function flushAll(): Promise<void> {
    while (state === 'stopping' && (!backlog.isEmpty(holding()) || underWay !== undefined)) {
      flush()
      await underWay
    }
  }

  const sender = {
    /** What its sets of responses counted begin with. */
    seenPrefix: seenPrefixOf(options.tag, options.journal),
    /** Has the counter flushed, and told anew, once so many intervals have passed since a batch. */
    schedule(counter: SharedCounter, intervals: number): void {
      if (backlog.enter(counter) || intervals < patience) arm(intervals)
    },
    /** Has a response counted by a batch as late as that, unless it is too old by then. */
    tell(report: SharedReport, intervals: number): void {
      backlog.push(report)
      arm(intervals)
    },
    /** Asks for counters beside its batches. `epoch` is the store's that answers, empty without one. */
    ask: link.ask,
    /** Asks what store it is, unless Redis has answered lately. */
    beat(): void {
      if (state === 'running' && monotonic() - link.answeredAt >= silenceMs) begin()
    },
    /** Whether the counter has to be kept for this sender's sake. */
    holds: (counter: SharedCounter): boolean => backlog.holds(counter) || link.doubts.has(counter),
    /** Settles once all that was scheduled and told until now is answered; rejects after a stop. */
    async kept(): Promise<void> {
      const kept = backlog.kept()
      if (state === 'stopped') backlog.giveUp(stopped())
      return kept
    },
    /**
     * Flushes what is left, for at most so long; sends nothing afterwards. Answers how many counters
     * it had to give up tokens of, reports aside: the journal has those.
     */
    async stop(graceMs: number): Promise<number> {
      if (state === 'running') state = 'stopping'
      wake()
      let over: NodeJS.Timeout | undefined
      await Promise.race([
        flushAll(),
        new Promise((resolve) => {
          over = setTimeout(resolve, graceMs)
        }),
      ])
      state = 'stopped'
      clearTimeout(over)
      clearTimeout(timer)
      wake()
      backlog.giveUp(stopped())
      return backlog.owed(monotonic(), link.doubts.keys())
    },
  }
  return sender
}

function stopped(): Error {
  return new Error('The counters were stopped before Redis had all that was added.')
}
