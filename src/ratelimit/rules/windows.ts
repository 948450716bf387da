/**
 * Windows of counters are functions of time: nobody opens one, and gateways need not agree on
 * anything. A window has a length, with a phase of its owner's; or it is a day, week or month of a
 * calendar, which all owners share.
 */

import { crc32 } from '../../formats/base62.ts'
import type { Exact } from '../../formats/exact.ts'
import { remember } from '../../formats/remember.ts'
import { isKnownZone, maxWindowMs } from '../../formats/time.ts'
import { type Calendar, calendarSpanAt, type NamedSpan } from './calendar.ts'

export type Window = { readonly ms: number } | Calendar

/** From `start` to before `end`, in milliseconds since the epoch. */
export interface Span {
  readonly start: number
  readonly end: number
}

/** What is counted in windows; `owner`: whose phase they have. */
export interface WindowedCounter {
  readonly key: string
  readonly owner: string
  readonly window: Window
}

/** One that is asked for again and again, with which sums keep the window that they found last; null before. */
export interface KeptCounter extends WindowedCounter {
  last: CounterWindow | null
}

/** One window of one counter. */
export interface CounterWindow {
  /** The same in every process, whatever version of the zones' rules it has. */
  readonly id: string
  /** When it began, or was last reset. */
  readonly since: number
  readonly end: number
  /** From one end to the next; longer than from `since` to `end` after a reset. */
  readonly ms: number
}

/** A counter began anew, for what ended after this instant. */
export interface CounterReset {
  readonly at: number
  /** What it began with. */
  readonly used: Exact
}

/** By the keys of counters, in any order. */
export type Resets = ReadonlyMap<string, readonly CounterReset[]>

/**
 * The window of a length at this instant: all of an owner's windows of this length end at the same
 * time past the hour, and those of many owners at many times.
 */
export function spanAt(window: Window, owner: string, at: number): Span & Partial<NamedSpan> {
  if ('every' in window) return calendarSpanAt(window, at)
  const { ms } = window
  const phase = crc32(owner) % ms
  const start = phase + Math.floor((at - phase) / ms) * ms
  return { start, end: start + ms }
}

/** `60000`, `day@Europe/Zurich`, `week1@Europe/Zurich` (from Monday), `month15@Europe/Zurich`. */
export function windowText(window: Window): string {
  if ('ms' in window) return `${window.ms}`
  const { every, zone, startsOn = 1 } = window
  return `${every}${every === 'day' ? '' : startsOn}@${zone}`
}

const maxRead = 4_096
const form = /^(?:(0|[1-9]\d{0,10})|(?:day|week([0-6])|month([1-9]|1\d|2[0-8]))@(.+))$/

/**
 * The window of a text as `windowText` writes it: the same object for the same text, mostly, which a calendar's spans
 * are remembered by. undefined for any other text, and for a zone that is not known here.
 */
export const readWindowText = remember(maxRead, (text): Window | undefined => {
  const [, ms, week, month, zone] = form.exec(text) ?? []
  if (ms !== undefined) return +ms <= maxWindowMs ? { ms: +ms } : undefined
  if (zone === undefined || !isKnownZone(zone)) return undefined
  if (week !== undefined) return { every: 'week', zone, startsOn: +week }
  return month === undefined ? { every: 'day', zone } : { every: 'month', zone, startsOn: +month }
})

/** Whether it counts what is open, whatever the time is: requests in progress. */
export function isWindowless({ window }: Pick<WindowedCounter, 'window'>): boolean {
  return 'ms' in window && window.ms === 0
}

/**
 * The window in which a response that ended `at` this instant counts. A reset begins a new one, for
 * what ends after it; what had ended by then belongs to the old one, whenever it is told.
 */
export function windowAt(
  counter: WindowedCounter,
  at: number,
  resets?: readonly CounterReset[],
): CounterWindow {
  const { key, owner, window } = counter
  const span = spanAt(window, owner, at)
  const since = sinceIn(span, at, resets)
  // A reset is named by its instant, on which all agree: it is a row in the database.
  const name = since === span.start ? (span.date ?? since) : since
  return { id: `${key}@${name}`, since, end: span.end, ms: span.end - span.start }
}

/** The key of the counter that a window is of. */
export function keyIn({ id }: Pick<CounterWindow, 'id'>): string {
  return id.slice(0, id.lastIndexOf('@'))
}

/** The last reset in the window before this instant, else its start. */
function sinceIn({ start }: Span, at: number, resets: readonly CounterReset[] = []): number {
  let since = start
  for (const reset of resets) if (reset.at < at && reset.at > since) since = reset.at
  return since
}
