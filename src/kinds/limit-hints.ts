/** Hints for invalid texts in a limit: the probable intention. */

import { nearestName } from '../formats/nearest-name.ts'
import { parseWindow } from '../formats/time.ts'
import type { CalendarWindow, LimitKind, LimitScope } from './limits.ts'

/** The hint with this text. */
export function didYouMean(meant: string | undefined): string | undefined {
  return meant && `did you mean ${meant}?`
}

/** Units as people write them, our unit for each, and the factor. */
const units: readonly (readonly [written: RegExp, unit: string, factor: number])[] = [
  [/^(s|secs?|seconds?)$/, 's', 1],
  [/^(m|mins?|minutes?)$/, 'm', 1],
  [/^(h|hrs?|hours?|hourly)$/, 'h', 1],
  [/^(d|days?|daily)$/, 'h', 24],
  [/^(w|wks?|weeks?|weekly)$/, 'h', 168],
]

const calendar: Readonly<Record<CalendarWindow, RegExp>> = {
  day: /^1? ?(d|days?|daily)$/i,
  week: /^1? ?(w|wks?|weeks?|weekly)$/i,
  month: /^1? ?(M|[Mm]o|[Mm]onths?|[Mm]onthly|MONTH)$/,
}

/** `month` for `monthly`, `720h` for `30d`. */
export function suggestWindow(raw: string): string | undefined {
  const ofCalendar = Object.entries(calendar).find(([, written]) => written.test(raw))
  if (ofCalendar !== undefined) return ofCalendar[0]
  const [, count = '', written = ''] = /^([0-9]{0,4}) ?([A-Za-z]+)$/.exec(raw) ?? []
  const found = units.find(([each]) => each.test(written.toLowerCase()))
  // Several months have no fixed length, and `M` is not minutes.
  if (found === undefined || written === 'M') return undefined
  const meant = `${Number(count || 1) * found[2]}${found[1]}`
  return parseWindow(meant) === undefined ? undefined : meant
}

/** The number alone in `$500`, `500 USD` and `1,000`; none for zero, nor for `0,500`, which is not 500. */
export function suggestNumber(raw: string): string | undefined {
  const written =
    /^[^-.0-9]{0,4}([1-9][0-9]{0,2}([,_' ][0-9]{3})+|[0-9]+)(\.[0-9]{1,9})?[^.0-9]{0,4}$/
  const [, whole = '', , fraction = ''] = written.exec(raw) ?? []
  if (!/[1-9]/.test(whole + fraction)) return undefined
  return `${whole.replace(/\D/g, '').replace(/^0+(?=.)/, '')}${fraction}`
}

/** `cost` for `usd`, else the nearest kind. */
export function suggestKind(raw: string, kinds: readonly LimitKind[]): string | undefined {
  const isMoney = /^(usd|eur|gbp|chf|dollars?|euros?|money|spend|spending|price|budget)$/i.test(raw)
  return isMoney ? 'cost' : nearestName(raw, kinds)
}

/** `team-a` for `Team A`. */
export function suggestLabel(raw: string): string | undefined {
  const label = raw.toLowerCase().replace(/[^a-z0-9]+/g, '-')
  return label.replace(/^-|-$/g, '') || undefined
}

const places: Readonly<Record<Exclude<LimitScope, 'key'>, string>> = {
  user: 'each resource',
  group: 'a Subscription',
  subscription: 'a Subscription or a ModelRef',
  model: 'a ModelRef',
  organization: 'the Tenant',
  installation: 'the Tenant',
}

/** The hint for a `per` that is not among these: the nearest of them, or the resource whose limits may have it. */
export function hintPer(raw: string, own: readonly LimitScope[]): string | undefined {
  const all = Object.keys(places) as (keyof typeof places)[]
  const meant = all.find((per) => per === nearestName(raw, all))
  if (meant === undefined || own.includes(meant)) return didYouMean(meant)
  return `${meant} belongs to the limits of ${places[meant]}`
}
