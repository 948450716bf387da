/**
 * Windows of counters are functions of time: none is opened, and gateways need not agree on anything. A window has a
 * fixed length and a phase that depends on its owner, or it is a day, week or month of a calendar in an IANA time zone,
 * which all owners share.
 */

import { crc32 } from '../../formats/base62.ts'
import type { ExactInt } from '../../formats/exact.ts'
import { memoize } from '../../formats/memoize.ts'
import { dayMs, isKnownZone, maxWindowMs, zoneOffsetAt } from '../../formats/time.ts'

export type Window = { readonly ms: number } | Calendar

/** From `start` to before `end`, in milliseconds since the epoch. */
interface Span {
  readonly start: number
  readonly end: number
}

/** A counter with windows; `owner` determines their phase. */
export interface WindowedCounter {
  readonly key: string
  readonly owner: string
  readonly window: Window
}

/** For counters that are read together repeatedly: the windows last found, in the same order; null at first. */
export interface CachedWindows {
  last: readonly CounterWindow[] | null
}

/** One window of one counter. */
export interface CounterWindow {
  /** Equal in every process, whatever its version of the time zone database. */
  readonly id: string
  /** When it began, or was last reset. */
  readonly since: number
  readonly end: number
  /** The length without resets; after one, longer than from `since` to `end`. */
  readonly ms: number
}

/** A reset of a counter: it counts responses that ended after this instant. */
export interface CounterReset {
  readonly at: number
  /** The value with which the new window begins. */
  readonly used: ExactInt
}

/** By counter key, in any order. */
export type Resets = ReadonlyMap<string, readonly CounterReset[]>

/**
 * The window at this instant. All of an owner's windows of one length have the same phase; the phases of owners are
 * spread.
 */
export function boundsAt(window: Window, owner: string, at: number): Span & Partial<NamedSpan> {
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
 * Parses a text from `windowText`. Mostly returns the same object for equal texts, because the spans of a calendar are
 * cached by object. Returns undefined for any other text, and for a zone that is not known here.
 */
export const parseWindowText = memoize(maxRead, (text): Window | undefined => {
  const [, ms, week, month, zone] = form.exec(text) ?? []
  if (ms !== undefined) return +ms <= maxWindowMs ? { ms: +ms } : undefined
  if (zone === undefined || !isKnownZone(zone)) return undefined
  if (week !== undefined) return { every: 'week', zone, startsOn: +week }
  return month === undefined ? { every: 'day', zone } : { every: 'month', zone, startsOn: +month }
})

/** Whether the counter is of requests in progress, which need no window. */
export function isWindowless({ window }: Pick<WindowedCounter, 'window'>): boolean {
  return 'ms' in window && window.ms === 0
}

/**
 * The window in which a response that ended `at` this instant counts. A reset begins a new window for responses that
 * end after it; those that ended by then count in the old one, whenever their lines are read.
 */
export function windowAt(
  counter: WindowedCounter,
  at: number,
  resets?: readonly CounterReset[],
): CounterWindow {
  const { key, owner, window } = counter
  const span = boundsAt(window, owner, at)
  const since = sinceIn(span, at, resets)
  // The window after a reset is named by its instant, on which all processes agree: it is a row in the database.
  const name = since === span.start ? (span.date ?? since) : since
  return { id: `${key}@${name}`, since, end: span.end, ms: span.end - span.start }
}

/** The counter key in a window's id. */
export function counterKeyOfWindow({ id }: Pick<CounterWindow, 'id'>): string {
  return id.slice(0, id.lastIndexOf('@'))
}

/** The last reset in the window before this instant, else its start. */
function sinceIn({ start }: Span, at: number, resets: readonly CounterReset[] = []): number {
  let since = start
  for (const reset of resets) if (reset.at < at && reset.at > since) since = reset.at
  return since
}

/** A day, or a week or month from its first day on. */
export interface Calendar {
  readonly every: 'day' | 'week' | 'month'
  /** A zone for which `isKnownZone` is true. */
  readonly zone: string
  /** Of a week 0 (Sunday) to 6, of a month 1 to 28; 1 by default. */
  readonly startsOn?: number
}

/** `date`: the local date on which it begins, `2026-11-05`. */
interface NamedSpan extends Span {
  readonly date: string
}

/** The last spans of each calendar, which most calls ask for: at a boundary the spans before and after it. */
const lastSpans = new WeakMap<Calendar, readonly NamedSpan[]>()
const maxSpans = 3

/**
 * The day, week or month at this instant. It begins with the first instant on its first local date, so days adjoin even
 * where a clock is put forward or back at midnight.
 */
function calendarSpanAt(calendar: Calendar, at: number): NamedSpan {
  const last = lastSpans.get(calendar) ?? []
  for (const span of last) if (span.start <= at && at < span.end) return span
  const span = findSpan(calendar, at)
  lastSpans.set(calendar, [span, ...last.slice(0, maxSpans - 1)])
  return span
}

function findSpan(calendar: Calendar, at: number): NamedSpan {
  const { zone } = calendar
  for (let local = at + zoneOffsetAt(zone, at); ; ) {
    const [from, to] = datesAround(calendar, new Date(local))
    const [start, end] = [instantOf(zone, from), instantOf(zone, to)]
    if (at < end) return { start, end, date: new Date(from).toISOString().slice(0, 10) }
    // A clock that was put back after midnight shows the previous date once more.
    local = to
  }
}

/** The midnights around a local time, calculated as in UTC. */
function datesAround({ every, startsOn = 1 }: Calendar, local: Date): readonly [number, number] {
  const [year, month, day] = [local.getUTCFullYear(), local.getUTCMonth(), local.getUTCDate()]
  if (every === 'month') {
    const first = day >= startsOn ? month : month - 1
    return [Date.UTC(year, first, startsOn), Date.UTC(year, first + 1, startsOn)]
  }
  const since = every === 'week' ? (local.getUTCDay() - startsOn + 7) % 7 : 0
  const days = every === 'week' ? 7 : 1
  return [Date.UTC(year, month, day - since), Date.UTC(year, month, day - since + days)]
}

/** The first instant at which a clock in the zone shows this time or, if it is skipped, a later one. */
function instantOf(zone: string, local: number): number {
  const offsets = [zoneOffsetAt(zone, local - dayMs), zoneOffsetAt(zone, local + dayMs)]
  const instants = offsets.map((offset) => local - offset)
  return Math.min(...instants.filter((at) => at + zoneOffsetAt(zone, at) >= local))
}
