/** Shuts a process down: its parts stop one after another, within one time budget. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'

/** A part that may take time to stop. */
export interface TimedStop {
  /** Its name in log lines: `the counters`. */
  readonly name: string
  /** Milliseconds that it may always take, however long earlier parts take. */
  readonly shareMs: number
  /** Maximum duration in milliseconds if earlier parts leave enough time; otherwise `shareMs`. */
  readonly maxMs?: number
  /** What is lost if it is abandoned, for the log. */
  readonly lost: string
  /** Stops it, within `graceMs` if possible. */
  stop(graceMs: number): unknown
}

/** How a part is stopped; a plain function stops at once. */
export type Stop = TimedStop | (() => unknown)

interface ShutdownOptions {
  readonly log: Pick<Logger, 'error'>
  readonly budgetMs?: number
  /** A monotonic clock in milliseconds. */
  readonly monotonic?: () => number
  /** Resolves after this time, or when the signal aborts the wait. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/** Below the usual grace period of 15 seconds, after which a supervisor may kill the process. */
const defaultBudgetMs = 14_000
/** By how much a part may miss its deadline. */
const marginMs = 100

/**
 * Stops the parts in this order. Each has a deadline: the sum of shares up to its own, counted from the beginning, or
 * its `maxMs` if earlier. A part that hangs is then abandoned with a log line about what is lost, which takes no time
 * from later parts. Returns whether every part stopped in time and without an error.
 */
export async function stopInOrder(
  stops: readonly Stop[],
  { log, budgetMs = defaultBudgetMs, ...clock }: ShutdownOptions,
): Promise<boolean> {
  const { monotonic = () => performance.now() } = clock
  const { pause = (ms, signal) => delay(ms, undefined, { signal }) } = clock
  const parts = stops.map(
    (stop): TimedStop => (typeof stop === 'function' ? { ...atOnce, stop } : stop),
  )
  const total = parts.reduce((sum, { shareMs }) => sum + shareMs, 0)
  const scale = Math.min(1, budgetMs / total)
  let deadline = monotonic()
  let complete = true
  for (const { name, shareMs, maxMs = shareMs, lost, stop } of parts) {
    deadline += shareMs * scale
    const graceMs = Math.max(0, Math.min(maxMs, Math.round(deadline - monotonic())))
    const waiting = new AbortController()
    const late = pause(graceMs + marginMs, waiting.signal).then(() => true)
    late.catch(() => {})
    try {
      const stopped = (async () => stop(graceMs))().then(() => false)
      if (await Promise.race([stopped, late])) {
        complete = false
        log.error(
          { code: 'shutdown_part_abandoned', part: name, graceMs, lost },
          'cannot stop a component in time: abandoned at shutdown',
        )
      }
    } catch (error) {
      complete = false
      log.error(
        { code: 'shutdown_part_failed', part: name, lost, err: error },
        'cannot stop a component',
      )
    }
    waiting.abort()
  }
  return complete
}

const atOnce = { name: 'a part that stops at once', shareMs: 0, lost: 'nothing' }
