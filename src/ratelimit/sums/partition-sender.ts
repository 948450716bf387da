/**
 * Schedules the calls of a hash tag: one at a time, each an interval after the previous one began, so that a slow store
 * makes calls larger and not more frequent.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { restAfter } from '../../runtime/loop.ts'
import { withTimeout } from '../../runtime/with-timeout.ts'
import { deferredEveryMs, type Partition } from './partition.ts'

export interface SenderOptions {
  readonly partition: Partition
  /** Milliseconds from the start of a call to the start of the next one. */
  readonly flushMs: number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** Called after each call, with its error if it failed. */
  readonly onOutcome: (error?: unknown) => void
}

/**
 * After a loss, other gateways' sums are repaired at a random time between these: by then they could have written them
 * again.
 */
const [soonestRereadMs, latestRereadMs] = [5_000, 15_000]
/** Milliseconds after the last call until another one checks whether the store has lost something. */
const silenceMs = 1_000
const backoff = { firstMs: 25, maxMs: 1_000 }

export type PartitionSender = ReturnType<typeof createPartitionSender>

export function createPartitionSender({ partition, flushMs, monotonic, onOutcome }: SenderOptions) {
  let state: 'running' | 'stopping' | 'stopped' = 'running'
  let timer: NodeJS.Timeout | undefined
  /** When the next call begins, and when the last one began. */
  let beginsAt = Number.POSITIVE_INFINITY
  let begunAt = Number.NEGATIVE_INFINITY
  let underWay: Promise<void> | undefined
  /** Minimum of the intervals that were requested during a call. */
  let intervalsLeft = Number.POSITIVE_INFINITY
  /** Failed calls in a row. */
  let failures = 0
  let rereadAt: number | undefined
  let isRereading = false

  /** Schedules a call this many intervals after the last one, or earlier. */
  function arm(intervals: number): void {
    intervalsLeft = Math.min(intervalsLeft, intervals)
    if (underWay !== undefined || state !== 'running') return
    const retryMs = failures === 0 ? 0 : restAfter(failures, backoff)
    const at = begunAt + Math.max(intervalsLeft * flushMs, retryMs)
    if (at >= beginsAt) return
    beginsAt = at
    clearTimeout(timer)
    const waitMs = at - monotonic()
    // The shortest timer takes a millisecond.
    if (waitMs > 0) timer = setTimeout(begin, waitMs).unref()
    else setImmediate(begin)
  }

  function begin(): void {
    clearTimeout(timer)
    beginsAt = Number.POSITIVE_INFINITY
    if (underWay !== undefined || state === 'stopped') return
    intervalsLeft = Number.POSITIVE_INFINITY
    begunAt = monotonic()
    underWay = partition.send().then(noteOutcome, noteOutcome).finally(follow)
  }

  function noteOutcome(error: unknown): void {
    failures = error === undefined ? 0 : failures + 1
    onOutcome(error)
  }

  /** Schedules a call for the rest, and for requests made meanwhile. */
  function follow(): void {
    underWay = undefined
    const left = intervalsLeft
    if (left < Number.POSITIVE_INFINITY) arm(left)
    else if (partition.due > 0) arm(1)
    else if (partition.deferred > 0) arm(Math.ceil(deferredEveryMs / flushMs))
  }

  function rereadIncomplete(): void {
    if (partition.incomplete === 0) {
      rereadAt = undefined
      return
    }
    rereadAt ??= monotonic() + soonestRereadMs + Math.random() * (latestRereadMs - soonestRereadMs)
    if (isRereading || monotonic() < rereadAt) return
    isRereading = true
    void partition
      .readIncomplete()
      .then(noteReread, onOutcome)
      .finally(() => {
        isRereading = false
      })
  }

  function noteReread(isWhole: boolean): void {
    // A database that does not respond is not asked every second.
    if (!isWhole) rereadAt = undefined
    if (partition.due > 0) arm(1)
  }

  return {
    arm,
    /** Call it every second. */
    maintain(): void {
      if (state !== 'running') return
      if (monotonic() - begunAt >= silenceMs) begin()
      rereadIncomplete()
    },
    /** Makes a call, and resolves once it has succeeded or failed. */
    async refreshed(): Promise<void> {
      await underWay
      begin()
      await underWay
    },
    /** Sends due sums for at most this long (ms), then stops; returns how many windows are left. */
    async stop(graceMs: number): Promise<number> {
      if (state === 'running') state = 'stopping'
      clearTimeout(timer)
      await withTimeout(graceMs, sendAll())
      state = 'stopped'
      return partition.due
    },
  }

  async function sendAll(): Promise<void> {
    await underWay
    while (state === 'stopping' && partition.due > 0) {
      begin()
      await underWay
      if (failures > 0) await delay(backoff.firstMs)
    }
  }
}
