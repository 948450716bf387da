/**
 * Times, durations and time zones in text. A zone is known by its IANA name, if this process's version of the time zone
 * rules has it.
 */

import { memoize } from './memoize.ts'

export const hourMs = 3_600_000
/** A day of 24 hours: in a zone, one on which clocks change is longer or shorter. */
export const dayMs = 24 * hourMs

/** One format takes about 50 kB. */
const maxFormats = 100

const ianaName =
  /^(?:[A-Z][A-Za-z0-9+-]*(?:_[A-Za-z0-9+-]+)*)(?:\/[A-Z][A-Za-z0-9+-]*(?:_[A-Za-z0-9+-]+)*){0,2}$/
/**
 * `Intl` knows more three-letter names, such as `PST`, which is a different zone from the one that most users expect.
 */
const shortNames = 'CET EET EST GMT HST MET MST PRC ROC ROK UCT UTC WET'.split(' ')

/** Whether this is the IANA name of a zone, in IANA's spelling: neither an offset nor an abbreviation of ICU's own. */
export function isKnownZone(name: string): boolean {
  if (name.length > 64 || !ianaName.test(name) || name.startsWith('SystemV/')) return false
  if (name.length === 3 && !shortNames.includes(name)) return false
  try {
    const { timeZone } = formatOf(name).resolvedOptions()
    return timeZone === name || timeZone.toLowerCase() !== name.toLowerCase()
  } catch {
    return false
  }
}

/** How far the zone's clocks are ahead of UTC at an instant, in milliseconds. Throws for an unknown zone. */
export function zoneOffsetAt(zone: string, at: number): number {
  // `formatToParts` would take twice as long.
  const shown = formatOf(zone).format(at).match(/\d+/g) ?? []
  const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = shown.map(Number)
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(at / 1_000) * 1_000
}

const formatOf = memoize(maxFormats, (zone) => {
  const number = 'numeric'
  return new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    calendar: 'gregory',
    year: number,
    month: number,
    day: number,
    hour: number,
    minute: number,
    second: number,
  })
})

/** An instant (milliseconds since the epoch) in RFC 3339: UTC with `Z`, whole seconds. */
export function toTimestamp(instant: number): string {
  return `${new Date(instant).toISOString().slice(0, 19)}Z`
}

/** An instant in RFC 3339 by the clocks of this zone: `2026-12-01T00:00:00+01:00`, or with `Z` in UTC. */
export function toZonedTimestamp(instant: number, zone: string): string {
  if (zone === 'UTC') return toTimestamp(instant)
  const offset = zoneOffsetAt(zone, instant)
  const sign = offset < 0 ? '-' : '+'
  const ahead = new Date(Math.abs(offset)).toISOString().slice(11, 16)
  return `${toTimestamp(instant + offset).slice(0, -1)}${sign}${ahead}`
}

/** The first whole second that is not before an end (milliseconds since the epoch): everything has ended by then. */
export function toEndTimestamp(instant: number): string {
  // All months of a calendar have the same end, which each Check would format again.
  if (instant !== lastEnd) lastText = toTimestamp(Math.ceil(instant / 1_000) * 1_000)
  lastEnd = instant
  return lastText
}

let lastEnd = Number.NaN
let lastText = ''

const timestamp = /^(\d{4}-\d\d-\d\d)(?:[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d))?$/

/**
 * The start in UTC of a day like `2026-03-01`, or the instant of a time in RFC 3339; undefined for anything else, and
 * for a day that does not exist.
 */
export function parseTimestamp(text: string): number | undefined {
  const day = timestamp.exec(text)?.[1]
  // `Date` reads 30 February as 2 March.
  if (day === undefined || new Date(day).toJSON()?.slice(0, 10) !== day) return undefined
  const instant = Date.parse(text)
  return Number.isNaN(instant) ? undefined : instant
}

// Durations have two small grammars: a key's `expiresIn` (contract, 3.2.1) and a limit's `window` (contract, 7.1).
const unitMs = { h: hourMs, m: 60_000, s: 1_000 } as const

const days = /^(\d{1,15}(?:\.\d{1,15})?)d$/
const clock =
  /^(?=\d)(?:(\d{1,15}(?:\.\d{1,15})?)h)?(?:(\d{1,15}(?:\.\d{1,15})?)m)?(?:(\d{1,15}(?:\.\d{1,15})?)s)?$/
const window = /^([1-9]\d{0,3})([smh])$/

/** The longest window a limit may have: 366 days (contract, 7.1). */
export const maxWindowMs = 8_784 * unitMs.h

/**
 * Milliseconds of `"30d"`, `"1.5d"`, `"2h30m"`, `"90m"`, `"3600s"`; undefined for everything else. Days cannot be
 * combined with other units, units must be in descending order, and signs are not allowed.
 */
export function parseDuration(text: string): number | undefined {
  const wholeDays = days.exec(text)
  if (wholeDays !== null) return Number(wholeDays[1]) * dayMs
  const parts = clock.exec(text)
  if (parts === null) return undefined
  const [, h, m, s] = parts
  return Number(h ?? 0) * unitMs.h + Number(m ?? 0) * unitMs.m + Number(s ?? 0) * unitMs.s
}

/** Milliseconds of a limit's window, `^[1-9]\d{0,3}(s|m|h)$` and at most 366 days; otherwise undefined. */
export function parseWindow(text: string): number | undefined {
  const parts = window.exec(text)
  if (parts === null) return undefined
  const windowMs = Number(parts[1]) * unitMs[parts[2] as keyof typeof unitMs]
  return windowMs <= maxWindowMs ? windowMs : undefined
}
