/** The windows in which requests hold, as a process knows them. */

import type { HeldCounter, Hold } from '../rules/hold.ts'
import { isWindowless, type WindowedCounter } from '../rules/windows.ts'
import type { WindowUsage } from '../sums/shared-sums.ts'

/** A counter's window at an instant. */
export type HeldWindow = Omit<WindowUsage, 'since' | 'ageMs'>

/**
 * Returns the windows of these counters at an instant, in their order, without waiting: of windows never read from the
 * store, only this gateway's use. Throws `counters_unavailable` if lines are not counted: then allow no request.
 */
export type KnownWindows = (
  counters: readonly WindowedCounter[],
  at: number,
) => readonly HeldWindow[]

/** A counter in which a request holds. */
export interface HoldTarget {
  /** `tokens` includes amounts that are computed from tokens, such as money. */
  readonly kind: 'tokens' | 'requests' | 'concurrency'
  readonly counter: HeldCounter
  /** Undefined for concurrency, which counts open requests only. */
  readonly window: HeldWindow | undefined
}

/** The counters of a hold that have windows. */
export function windowedCounters({ counters, requestCounters = [] }: Hold): readonly HeldCounter[] {
  const windowed = requestCounters.filter((counter) => !isWindowless(counter))
  return windowed.length === 0 ? counters : [...counters, ...windowed]
}

/** The targets in the order of `counters`, then of `requestCounters`. `known`: the windows of `windowedCounters`. */
export function holdTargets(
  { counters, requestCounters = [] }: Hold,
  known: readonly HeldWindow[],
): readonly HoldTarget[] {
  let next = 0
  const targets = counters.map((counter): HoldTarget => {
    return { kind: 'tokens', counter, window: known[next++] }
  })
  for (const counter of requestCounters) {
    if (isWindowless(counter)) targets.push({ kind: 'concurrency', counter, window: undefined })
    else targets.push({ kind: 'requests', counter, window: known[next++] })
  }
  return targets
}

/** The window that a hold binds, or undefined if it binds every window. */
export function boundWindow({ kind, window }: HoldTarget, charge: Hold['charge']) {
  return kind === 'tokens' && charge === 'end' ? undefined : window
}
