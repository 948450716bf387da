/** The windows in which requests hold, as a process knows them. */

import type { HeldCounter, Hold } from '../rules/hold.ts'
import { isWindowless, type WindowedCounter } from '../rules/windows.ts'
import type { WindowUsage } from '../sums/shared-sums.ts'

/** A counter's window at an instant. */
export type HeldWindow = Omit<WindowUsage, 'since' | 'ageMs' | 'fields'>

/**
 * The windows of these counters at an instant, in their order, without waiting: unknown ones as far as they are known.
 * Throws `counters_unavailable` if lines are not counted, so that no request may be allowed.
 */
export type KnownWindows = (
  counters: readonly WindowedCounter[],
  at: number,
) => readonly HeldWindow[]

/** A counter in which a request holds. */
export interface HoldPlace {
  /** `tokens`: also what is computed from tokens, such as money. */
  readonly kind: 'tokens' | 'requests' | 'concurrency'
  readonly counter: HeldCounter
  /** Undefined for concurrency, which counts open requests only. */
  readonly window: HeldWindow | undefined
}

/** The asked counters that have windows. */
export function windowedOf({ counters, requestCounters = [] }: Hold): readonly HeldCounter[] {
  const windowed = requestCounters.filter((counter) => !isWindowless(counter))
  return windowed.length === 0 ? counters : [...counters, ...windowed]
}

/** The places in the order of the counters, then of those of requests. `known`: the windows of `windowedOf`. */
export function placesOf(
  { counters, requestCounters = [] }: Hold,
  known: readonly HeldWindow[],
): readonly HoldPlace[] {
  let next = 0
  const places = counters.map((counter): HoldPlace => {
    return { kind: 'tokens', counter, window: known[next++] }
  })
  for (const counter of requestCounters) {
    if (isWindowless(counter)) places.push({ kind: 'concurrency', counter, window: undefined })
    else places.push({ kind: 'requests', counter, window: known[next++] })
  }
  return places
}

/** The window that a hold binds; undefined: every window. */
export function boundWindow({ kind, window }: HoldPlace, charge: Hold['charge']) {
  return kind === 'tokens' && charge === 'end' ? undefined : window
}
