import { offsetAt } from './time-zone.ts'

/** An instant (milliseconds since the epoch) in RFC 3339: UTC with `Z`, whole seconds. */
export function toTimestamp(instant: number): string {
  return `${new Date(instant).toISOString().slice(0, 19)}Z`
}

/** The same by the clocks of a zone (time-zone.ts): `2026-12-01T00:00:00+01:00`, and with `Z` in UTC. */
export function toZonedTimestamp(instant: number, zone: string): string {
  if (zone === 'UTC') return toTimestamp(instant)
  const offset = offsetAt(zone, instant)
  const sign = offset < 0 ? '-' : '+'
  const ahead = new Date(Math.abs(offset)).toISOString().slice(11, 16)
  return `${toTimestamp(instant + offset).slice(0, -1)}${sign}${ahead}`
}

/** The first whole second that is not before an end (milliseconds since the epoch): nothing is open by then. */
export function toEndTimestamp(instant: number): string {
  // All months of a calendar have one end, which each Check would write again.
  if (instant !== lastEnd) lastText = toTimestamp(Math.ceil(instant / 1_000) * 1_000)
  lastEnd = instant
  return lastText
}

let lastEnd = Number.NaN
let lastText = ''
