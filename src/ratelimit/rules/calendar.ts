/** Days, weeks and months of a calendar in a zone (IANA), as spans of time. */

import { offsetAt } from '../../formats/time.ts'

/** A day, or a week or month from its first day on. */
export interface Calendar {
  readonly every: 'day' | 'week' | 'month'
  /** One for which `isKnownZone`. */
  readonly zone: string
  /** Of a week 0 (Sunday) to 6, of a month 1 to 28; 1 by default. */
  readonly startsOn?: number
}

/** In milliseconds since the epoch; `date`: the local date on which it begins, `2026-11-05`. */
export interface NamedSpan {
  readonly start: number
  readonly end: number
  readonly date: string
}

const dayMs = 86_400_000

/** The last spans of each calendar, of which most questions are: at a boundary those before and after it. */
const lastSpans = new WeakMap<Calendar, readonly NamedSpan[]>()
const maxSpans = 3

/**
 * The day, week or month at this instant. It begins with the first instant that is on its first
 * local date, so days adjoin where a clock is put forward or back at midnight.
 */
export function calendarSpanAt(calendar: Calendar, at: number): NamedSpan {
  const last = lastSpans.get(calendar) ?? []
  for (const span of last) if (span.start <= at && at < span.end) return span
  const span = findSpan(calendar, at)
  lastSpans.set(calendar, [span, ...last.slice(0, maxSpans - 1)])
  return span
}

function findSpan(calendar: Calendar, at: number): NamedSpan {
  const { zone } = calendar
  for (let local = at + offsetAt(zone, at); ; ) {
    const [from, to] = datesAround(calendar, new Date(local))
    const [start, end] = [instantOf(zone, from), instantOf(zone, to)]
    if (at < end) return { start, end, date: new Date(from).toISOString().slice(0, 10) }
    // A clock was put back after midnight, and shows the date before once more.
    local = to
  }
}

/** The midnights between which it lies, as if the zone were UTC. */
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

/** The first instant at which a clock in the zone shows this time or, where it is skipped, a later one. */
function instantOf(zone: string, local: number): number {
  const offsets = [offsetAt(zone, local - dayMs), offsetAt(zone, local + dayMs)]
  const instants = offsets.map((offset) => local - offset)
  return Math.min(...instants.filter((at) => at + offsetAt(zone, at) >= local))
}
