/**
 * The windows of one gateway, each with the sum of its lines. A line counts at its own time, so processes that take the
 * same lines, in any order and at any time, have the same sums.
 */

import { addExact, type ExactInt } from '../../formats/exact.ts'
import { createTally, ownUseOf, recordFields, type Tally, ticksBetween, toTick } from './tally.ts'
import {
  type CachedWindows,
  type CounterWindow,
  counterKeyOfWindow,
  type Resets,
  type WindowedCounter,
  windowAt,
} from './windows.ts'

/** The amount that a line adds to each of these counters, at this instant. */
export interface LineUse {
  readonly at: number
  readonly amount: ExactInt
  readonly counters: readonly WindowedCounter[]
}

/** A window with its sum. */
export interface OwnSum extends CounterWindow {
  readonly sum: ExactInt
  readonly base: ExactInt
}

/** Counters that are read together, in a list that may cache the windows last found. */
export type CounterList = readonly WindowedCounter[] & Partial<CachedWindows>

export type WindowSums = ReturnType<typeof createWindowSums>

/** Windows of this length and longer are long: a day, even one on which clocks are put forward. */
export const longMs = 72_000_000

/**
 * How long a window is sent after its end, for late lines, and how far gateways' clocks may be ahead: 20 s. A long
 * window remains for hours, because under another version of the time zone rules it may end later.
 */
export function sendGraceMs({ ms }: Pick<CounterWindow, 'ms'>): number {
  return ms < longMs ? 20_000 : 7_200_000
}

/**
 * Whether the window is not sent; also true for one that begins in the future, by a clock far ahead. This clock may be
 * the wrong one, so it does not drop a sum at once.
 */
export function isEnded(window: CounterWindow, now: number): boolean {
  const { since, end, ms } = window
  const graceMs = sendGraceMs(window)
  return end + graceMs <= now || since > now + ms + graceMs
}

/**
 * How long the clock must say that a window has ended before its sum is dropped, in milliseconds by a monotonic clock:
 * one that is wrong for a moment loses nothing. Sums of shorter windows are many and matter for as long, so they are
 * dropped at once.
 */
const wrongMs = 600_000

/** Whether the window is over and so short that its sum need not outlast a wrong clock. */
function isGone(window: CounterWindow, now: number): boolean {
  return window.ms < wrongMs && isEnded(window, now)
}

function isIn({ since, end }: CounterWindow, instant: number): boolean {
  return since <= instant && instant < end
}

/**
 * A window that follows a known one is assumed to be empty in the store if it is looked up this soon after its start.
 */
const youngMs = 1_000

/** The name under which every gateway writes the value that a counter was reset to. */
const resetField = '.'

/** `resets`: shared with other sums of the same lines. `now` below: milliseconds since the epoch. */
export function createWindowSums(resets: Resets, monotonic: () => number) {
  const all = new Map<string, Tally>()
  /** The latest window of each counter. */
  const latest = new Map<string, Tally>()
  /** Windows with own sums that were over in all sweeps since this monotonic time. */
  const overSince = new Map<Tally, number>()

  function of(window: CounterWindow): Tally {
    let tally = all.get(window.id)
    if (tally === undefined) {
      tally = createTally(window, toTick(monotonic()), all)
      all.set(window.id, tally)
      const reset = resets.get(counterKeyOfWindow(tally))?.find(({ at }) => at === window.since)
      if (reset?.used) recordFields(tally, new Map([[resetField, reset.used]]))
    }
    return tally
  }

  /** The window of a counter at an instant. */
  function at(counter: WindowedCounter, instant: number): Tally {
    const times = resets.size === 0 ? undefined : resets.get(counter.key)
    const last = latest.get(counter.key)
    if (last !== undefined && times === undefined && isIn(last, instant)) return last
    const window = windowAt(counter, instant, times)
    const isNew = !all.has(window.id)
    const tally = of(window)
    // The window was saved under another version of the time zone rules.
    if (tally.end !== window.end) Object.assign(tally, window)
    // No Check waits at a boundary: a refresh fetches what other gateways have counted since the window's start.
    if (isNew && last?.isKnown && last.end === window.since && instant - window.since < youngMs) {
      tally.isKnown = true
    }
    // A slice of the id: the caller's key would take half as much memory as all other facts known of the window.
    latest.set(counterKeyOfWindow(tally), tally)
    return tally
  }

  /** The windows of these counters at an instant; without a look-up if those that the list caches still apply. */
  function allAt(counters: CounterList, instant: number): readonly Tally[] {
    const kept = counters.last as readonly Tally[] | null | undefined
    if (kept && areStill(kept, counters, instant)) return kept
    const found = counters.map((counter) => at(counter, instant))
    if (kept !== undefined) counters.last = found
    return found
  }

  /** Whether a sweep keeps the window. */
  function isKept(tally: Tally, now: number, idleSince: number | undefined): boolean {
    const isOwn = ownUseOf(tally) > 0
    if (!isEnded(tally, now)) {
      overSince.delete(tally)
      return isOwn || idleSince === undefined || ticksBetween(tally.usedAt, idleSince) <= 0
    }
    if (!isOwn || isGone(tally, now)) return false
    const since = overSince.get(tally) ?? monotonic()
    overSince.set(tally, since)
    // A window to come may be the present one of a clock that is behind, but not for longer than it lasts.
    return monotonic() - since < (tally.since > now ? tally.ms : wrongMs)
  }

  /** A loop, because it is fast and each Check does this for all its limits. */
  function areStill(tallies: readonly Tally[], counters: CounterList, instant: number): boolean {
    for (let i = 0; i < tallies.length; i += 1) {
      const tally = tallies[i] as Tally
      if (tally.among !== all || !isIn(tally, instant)) return false
      if (resets.size > 0 && resets.has((counters[i] as WindowedCounter).key)) return false
    }
    return true
  }

  return {
    all: all as ReadonlyMap<string, Tally>,
    of,
    at,
    allAt,
    /** Adds to each counter; returns the windows that took the amount. */
    count({ at: instant, amount, counters }: LineUse, now: number): readonly Tally[] {
      const changed: Tally[] = []
      for (const counter of counters) {
        const tally = at(counter, instant)
        if (isGone(tally, now)) continue
        tally.sum = addExact(tally.sum, amount)
        changed.push(tally)
      }
      return changed
    },
    /** Replaces the sums of this gateway; all other facts known of a window stay. */
    replaceOwn(own: Iterable<OwnSum>): void {
      for (const tally of all.values()) {
        tally.sum = 0
        tally.base = 0
      }
      for (const each of own) {
        const tally = of(each)
        tally.sum = each.sum
        tally.base = each.base
      }
    },
    /** Windows of this gateway's sums, also those that are over only by a clock that may be wrong. */
    own(now: number): readonly Tally[] {
      const own: Tally[] = []
      for (const tally of all.values()) {
        if (ownUseOf(tally) > 0 && !isGone(tally, now)) own.push(tally)
      }
      return own
    },
    /** Drops windows that are over, and those without own sums that were last used before `idleSince` (a tick). */
    sweep(now: number, idleSince?: number): void {
      for (const [id, tally] of all) {
        if (isKept(tally, now, idleSince)) continue
        all.delete(id)
        overSince.delete(tally)
        tally.among = undefined
      }
      for (const [key, tally] of latest) if (tally.among === undefined) latest.delete(key)
    },
  }
}
