/** Time zones by their IANA names, as far as this process's edition of the zones' rules knows them. */

import { remember } from './remember.ts'

/** One format takes some 50 kB. */
const maxFormats = 100

const ianaName =
  /^(?:[A-Z][A-Za-z0-9+-]*(?:_[A-Za-z0-9+-]+)*)(?:\/[A-Z][A-Za-z0-9+-]*(?:_[A-Za-z0-9+-]+)*){0,2}$/
/** `Intl` knows more of three letters, such as `PST`, which is another zone than many mean. */
const shortNames = 'CET EET EST GMT HST MET MST PRC ROC ROK UCT UTC WET'.split(' ')

/** Whether it is the IANA name of a zone, in IANA's spelling: no offset, and no abbreviation of ICU's own. */
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

/** By how much the zone's clocks are ahead of UTC at an instant, in milliseconds. Throws for a zone that is not known. */
export function offsetAt(zone: string, at: number): number {
  // By its parts it would take twice as long.
  const shown = formatOf(zone).format(at).match(/\d+/g) ?? []
  const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = shown.map(Number)
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(at / 1_000) * 1_000
}

const formatOf = remember(maxFormats, (zone) => {
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
