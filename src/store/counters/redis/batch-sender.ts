/**
 * Sends additions in batches, exactly once: one batch is in flight at a time, and is repeated with
 * the same number until Redis responds. Every batch also refreshes the view. A batch is for one
 * store: another store first gets the known sums (restore.ts).
 */

import { atMost } from '../../../runtime/at-most.ts'
import { createAlarm } from '../../../runtime/loop.ts'
import { createBacklog, type Holding } from './backlog.ts'
import type { Sender, SharedCounter, SharedReport } from './shared-counter.ts'
import { createStoreLink, type StoreLinkOptions } from './store-link.ts'

export interface SenderOptions extends StoreLinkOptions {
  readonly flushMs: number
  /** Called after each attempt, with the error of a failed one. */
  readonly onOutcome: (who: unknown, error?: unknown) => void
}

const firstRetryMs = 50
const maxRetryMs = 1_000
const stoppingRetryMs = 25
/** A heartbeat asks Redis after this long without a response. */
const silenceMs = 1_000

/** A sender with a mark of its own. */
export function createBatchSender(options: SenderOptions): Sender {
  const { flushMs, monotonic, onOutcome } = options
  const link = createStoreLink({
    ...options,
    onOther() {
      options.onOther()
      // The store must get the known sums at once, even if there is nothing else to send.
      setImmediate(begin)
    },
  })
  const backlog = createBacklog()
  let underWay: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let flushAt = Number.POSITIVE_INFINITY
  /** The number of intervals that the most urgent waiting entry may wait. */
  let intervalsLeft = Number.POSITIVE_INFINITY
  let startedAt = Number.NEGATIVE_INFINITY
  let state: 'running' | 'stopping' | 'stopped' = 'running'
  const alarm = createAlarm(new AbortController().signal)

  function isStopped(): boolean {
    return state === 'stopped'
  }

  /** What the next batch may contain. */
  function holding(): Holding {
    return monotonic() >= link.matureAt ? 'all' : 'counters'
  }

  /**
   * The first batch after a pause is sent at once, others at intervals, unless there is enough for
   * a full one.
   */
  function arm(intervals: number): void {
    intervalsLeft = Math.min(intervalsLeft, intervals)
    if (underWay !== undefined || state !== 'running') return
    const nextAt = startedAt + intervalsLeft * flushMs
    // Most entries follow one that has set the timer, and need not ask for the time.
    if (flushAt <= nextAt && !backlog.isFull()) return
    const now = holding()
    let at = backlog.isFull(now) ? 0 : nextAt
    if (backlog.isEmpty(now) && link.epoch !== '') at = Math.max(at, link.matureAt)
    if (at >= flushAt) return
    flushAt = at
    clearTimeout(timer)
    const waitMs = at - monotonic()
    // The shortest timer is a millisecond.
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
    intervalsLeft = Number.POSITIVE_INFINITY
    underWay = sendBatch().finally(() => {
      underWay = undefined
      // What did not fit into a batch waits one interval; later additions have set their own.
      if (!backlog.isEmpty()) arm(intervalsLeft === Number.POSITIVE_INFINITY ? 1 : intervalsLeft)
    })
  }

  /** Sends the next batch, which is remade if the store turns out to be another one. */
  async function sendBatch(): Promise<void> {
    let isDone = false
    while (!isDone && (await repeat(link.restore))) isDone = await deliver()
  }

  /** Retries until it succeeds; false if it was stopped first. */
  async function repeat(attempt: () => Promise<void>, onFailure = () => {}): Promise<boolean> {
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(maxRetryMs, 2 * retryMs)) {
      startedAt = monotonic()
      try {
        await attempt()
        return true
      } catch (error) {
        onOutcome(sender, error)
        onFailure()
        if (state === 'stopped') return false
        backlog.leaveOld(monotonic())
        await alarm.rest(state === 'stopping' ? stoppingRetryMs : retryMs)
      }
    }
  }

  /** Returns true when the store for which the batch was made has responded. */
  async function deliver(): Promise<boolean> {
    if (isStopped()) return true
    // The link may have learned of another store meanwhile.
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

  async function flushAll(): Promise<void> {
    while (state === 'stopping' && (!backlog.isEmpty(holding()) || underWay !== undefined)) {
      flush()
      await underWay
    }
  }

  const sender: Sender = {
    schedule(counter: SharedCounter, intervals: number): void {
      if (backlog.enter(counter) || intervals < intervalsLeft) arm(intervals)
    },
    report(report: SharedReport): void {
      backlog.push(report)
      arm(1)
    },
    ask: link.ask,
    noteReset: link.noteReset,
    beat(): void {
      if (state === 'running' && monotonic() - link.answeredAt >= silenceMs) begin()
    },
    holds: (counter: SharedCounter): boolean => backlog.holds(counter) || link.doubts.has(counter),
    async kept(): Promise<void> {
      const kept = backlog.kept()
      if (state === 'stopped') backlog.giveUp(stopped())
      return kept
    },
    async stop(graceMs: number): Promise<number> {
      if (state === 'running') state = 'stopping'
      alarm.ring()
      await atMost(graceMs, flushAll())
      state = 'stopped'
      clearTimeout(timer)
      alarm.ring()
      backlog.giveUp(stopped())
      return backlog.owed(monotonic(), link.doubts.keys())
    },
  }
  return sender
}

function stopped(): Error {
  return new Error('The counters were stopped before Redis had all that was added.')
}
