/**
 * Durations in text: `expiresIn` of a key (contract, 3.2.1) and `window` of a limit (contract,
 * 7.1). Two small grammars; both return milliseconds and never throw.
 */

const dayMs = 86_400_000
const unitMs = { h: 3_600_000, m: 60_000, s: 1_000 } as const

const days = /^(\d{1,15}(?:\.\d{1,15})?)d$/
const clock =
  /^(?=\d)(?:(\d{1,15}(?:\.\d{1,15})?)h)?(?:(\d{1,15}(?:\.\d{1,15})?)m)?(?:(\d{1,15}(?:\.\d{1,15})?)s)?$/
const window = /^([1-9]\d{0,3})([smh])$/

/** The longest window a limit may have: 366 days (contract, 7.1). */
export const maxWindowMs = 8_784 * unitMs.h

/**
 * Milliseconds of `"30d"`, `"1.5d"`, `"2h30m"`, `"90m"`, `"3600s"`; undefined for everything else.
 * Days cannot be combined with other units, units must be in descending order, and signs are not
 * allowed.
 */
export function parseDuration(text: string): number | undefined {
  const wholeDays = days.exec(text)
  if (wholeDays !== null) return Number(wholeDays[1]) * dayMs
  const parts = clock.exec(text)
  if (parts === null) return undefined
  const [, h, m, s] = parts
  return Number(h ?? 0) * unitMs.h + Number(m ?? 0) * unitMs.m + Number(s ?? 0) * unitMs.s
}

/**
 * Milliseconds of a limit's window, `^[1-9]\d{0,3}(s|m|h)$` and at most 366 days; otherwise
 * undefined.
 */
export function parseWindow(text: string): number | undefined {
  const parts = window.exec(text)
  if (parts === null) return undefined
  const windowMs = Number(parts[1]) * unitMs[parts[2] as keyof typeof unitMs]
  return windowMs <= maxWindowMs ? windowMs : undefined
}
