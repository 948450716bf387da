/** Numbers as people read them. */

import { numberLocale } from './locale.ts'

const whole = new Intl.NumberFormat(numberLocale)
const short = new Intl.NumberFormat(numberLocale, {
  notation: 'compact',
  maximumSignificantDigits: 3,
})
const huge = new Intl.NumberFormat(numberLocale, {
  notation: 'scientific',
  maximumSignificantDigits: 3,
})
const percent = new Intl.NumberFormat(numberLocale, { style: 'percent', maximumFractionDigits: 0 })
const exact = new Intl.NumberFormat(numberLocale, { style: 'percent', maximumFractionDigits: 1 })

/** `12,345`. */
export function count(value: number): string {
  return whole.format(value)
}

/** `12.3K`; `1.2E16`, for which there is no letter. */
export function compact(value: number): string {
  return (value < 1e15 ? short : huge).format(value)
}

/** `24 %`; small shares are more precise. */
export function share(part: number): string {
  if (part > 0 && part < 0.001) return `<${exact.format(0.001)}`
  return (part > 0 && part < 0.01 ? exact : percent).format(part)
}

/** `one key`, `2 keys`. */
export function some(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

/** An amount of money: `$1.50`; small ones with their first two significant digits: `$0.0012`. */
export function money(value: number, currency: string | undefined): string {
  const first = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)))
  return new Intl.NumberFormat(numberLocale, {
    minimumFractionDigits: 2,
    maximumFractionDigits: Math.min(Math.max(2, 1 - first), 20),
    ...(currency && { style: 'currency', currency, currencyDisplay: 'narrowSymbol' }),
  }).format(value)
}

/** All digits of a decimal string, and separators: `1,234.567`. */
export function grouped(written: string): string {
  const [whole = '', ...decimals] = written.split('.')
  return [count(Number(whole)), ...decimals].join('.')
}

/** `240 ms`, `1.3 s`. */
export function duration(seconds: number): string {
  return seconds < 1 ? `${Math.round(seconds * 1_000)} ms` : `${seconds.toFixed(1)} s`
}

/** Removes thousands separators from input: `1,234.5` is 1234.5; `2,50` is unchanged, since it is no number. */
export function ungrouped(written: string): string {
  return written.replaceAll(/(?<=\d)[\s,_](?=\d{3}(?!\d))/g, '')
}

/** A whole number from input. Anything else is 0, which the API refuses with an explanation: `10.000` may be 10 or 10,000. */
export function wholeIn(written: string): number {
  const text = ungrouped(written.trim())
  return /^\d+$/.test(text) ? Number(text) : 0
}
