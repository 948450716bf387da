/** The end of a process: its parts stop one after another, within one budget of time. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'

/** A part that may take time to stop. */
export interface TimedStop {
  /** As a log line names it: `the counters`. */
  readonly name: string
  /** Milliseconds that it may take whatever the parts before it do. */
  readonly shareMs: number
  /** Milliseconds that it may take at most where those before it leave some of theirs; else `shareMs`. */
  readonly mostMs?: number
  /** What is lost when it is given up, for the log. */
  readonly lost: string
  /** Stops it, within `graceMs` where it can. */
  stop(graceMs: number): unknown
}

/** How a part is stopped; a plain function is for one that stops at once. */
export type Stop = TimedStop | (() => unknown)

export interface ShutdownOptions {
  readonly log: Pick<Logger, 'error'>
  readonly budgetMs?: number
  /** Milliseconds by a clock that never steps. */
  readonly monotonic?: () => number
  /** Settles after so long, or when the signal says that nobody waits any more. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/** Below the 15 seconds after which whoever asked for the end may enforce it. */
const usualBudgetMs = 14_000
/** By how much a part that was told its deadline may miss it. */
const marginMs = 100

/**
 * Stops the parts in this order. Each has a deadline: the shares up to its own, counted from the
 * beginning, or before that its `mostMs`. A part that hangs is given up then, with a log line that
 * says what is lost, and takes nothing from those behind it. Answers whether every part stopped in time and without an error.
 */
export async function stopInOrder(
  stops: readonly Stop[],
  { log, budgetMs = usualBudgetMs, monotonic = now, pause = sleep }: ShutdownOptions,
): Promise<boolean> {
  const parts = stops.map(
    (stop): TimedStop => (typeof stop === 'function' ? { ...atOnce, stop } : stop),
  )
  const total = parts.reduce((sum, { shareMs }) => sum + shareMs, 0)
  const scale = Math.min(1, budgetMs / total)
  let deadline = monotonic()
  let complete = true
  for (const { name, shareMs, mostMs = shareMs, lost, stop } of parts) {
    deadline += shareMs * scale
    const graceMs = Math.max(0, Math.min(mostMs, Math.round(deadline - monotonic())))
    const waiting = new AbortController()
    const late = pause(graceMs + marginMs, waiting.signal).then(() => true)
    late.catch(() => {})
    try {
      const stopped = (async () => stop(graceMs))().then(() => false)
      if (await Promise.race([stopped, late])) {
        complete = false
        log.error({ part: name, graceMs, lost }, 'given up at shutdown')
      }
    } catch (error) {
      complete = false
      log.error({ part: name, lost, err: error }, 'failed at shutdown')
    }
    waiting.abort()
  }
  return complete
}

const atOnce = { name: 'a part that stops at once', shareMs: 0, lost: 'nothing' }

function now(): number {
  return performance.now()
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return delay(ms, undefined, { signal })
}
