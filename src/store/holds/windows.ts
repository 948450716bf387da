/** The windows in which requests hold, as a process knows them. */

import type { WindowedCounter } from '../../core/counting/windows.ts'
import type { Counter } from '../../core/decision/counter.ts'

/** A counter's window at an instant. */
export interface HeldWindow {
  /** The counter's key, `@` and what the window is called. */
  readonly id: string
  readonly used: number
  /** How much of that a store that gateways share has told: its holds have ended there, too. */
  readonly told: number
  /** Milliseconds since the epoch. */
  readonly resetsAt: number
  /** Whether the store was asked about it. */
  readonly isKnown: boolean
}

/**
 * The windows of these counters at an instant, in their order, at once: what would have to be fetched is told as far
 * as it is known. Throws `counters_unavailable` where nothing counts and nothing is to be allowed then.
 */
export type KnownWindows = (
  counters: readonly WindowedCounter[],
  at: number,
) => readonly HeldWindow[]

/** Whether it counts requests in progress: it is with the holds alone, and has no window. */
export function isOfOpen({ window }: Pick<Counter, 'window'>): boolean {
  return 'ms' in window && window.ms === 0
}
