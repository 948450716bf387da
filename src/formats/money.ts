/**
 * Prices as people and tools write them, and amounts of money, in whole nano-units (10⁻⁹ of BILLING_CURRENCY) or in
 * units of a price (10⁻²⁴), as decimal strings.
 */

import { type ExactInt, toExact } from './exact.ts'

const form = /^(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,3}))?$/
/** Digits that the ledger can store. */
const maxWhole = 12
const maxFraction = 24

/**
 * Reads a decimal number of at least 0, also `1.5e-07` or `.5`; returns it without exponent: `0.00000015`. Returns
 * undefined for other text, and for more than 12 digits before the point or 24 after it.
 */
export function parsePrice(raw: string): string | undefined {
  const [, whole = '', fraction = '', exponent = '0'] = form.exec(raw) ?? []
  const digits = `${whole}${fraction}`
  if (digits === '' || digits.length > 100) return undefined
  const point = whole.length + Number(exponent)
  const before = digits.slice(0, Math.max(0, point)).padEnd(Math.max(0, point), '0')
  const behind = `${'0'.repeat(Math.max(0, -point))}${digits.slice(Math.max(0, point))}`
  const [left, right] = [before.replace(/^0+/, ''), behind.replace(/0+$/, '')]
  if (left.length > maxWhole || right.length > maxFraction) return undefined
  return `${left || '0'}${right && `.${right}`}`
}

const nanoDecimals = 9
/** In nano-units; a counter cannot hold more. */
const most = 9_000_000_000n * 10n ** 9n

/** Without exponent and trailing zeros: `12.5`, `0`. */
export function formatMoney(nano: ExactInt): string {
  // Fast path: most limits are round, and every response shows one if there is a limit on money.
  if (typeof nano === 'number' && nano % 1e9 === 0) return String(nano / 1e9)
  return showDecimal(nano, nanoDecimals)
}

/** The amount of a limit of this kind in APIs, notices and the CLI: for cost a decimal string. */
export function toAmount({ kind }: { readonly kind: string }, amount: ExactInt): number | string {
  return kind === 'cost' ? formatMoney(amount) : Number(amount)
}

/**
 * In nano-units; undefined unless it is a decimal number from 0 to 9,000,000,000 with at most 9 digits after the point.
 */
export function parseMoney(text: string): ExactInt | undefined {
  const [, whole, fraction = ''] = /^(\d{1,10})(?:\.(\d{1,9}))?$/.exec(text) ?? []
  if (whole === undefined) return undefined
  const nano = BigInt(whole + fraction.padEnd(nanoDecimals, '0'))
  return nano > most ? undefined : toExact(nano)
}

/** A price as a number of units of 10⁻²⁴, which multiply without rounding. */
export function toPriceUnits(price: string): bigint {
  const [whole = '0', fraction = ''] = price.split('.')
  return BigInt(whole + fraction.padEnd(maxFraction, '0'))
}

/** The inverse of `toPriceUnits`. */
export function formatPriceUnits(units: bigint): string {
  return showDecimal(units, maxFraction)
}

const unitsOfNano = 10n ** BigInt(maxFraction - nanoDecimals)

/** In nano-units, rounded up. */
export function priceUnitsToNano(units: bigint): bigint {
  return (units + unitsOfNano - 1n) / unitsOfNano
}

function showDecimal(value: ExactInt, decimals: number): string {
  if (value === 0) return '0'
  const digits = String(value < 0 ? -value : value).padStart(decimals + 1, '0')
  const point = digits.length - decimals
  let end = digits.length
  while (end > point && digits.charCodeAt(end - 1) === 48) end -= 1
  const fraction = end > point ? `.${digits.slice(point, end)}` : ''
  return `${value < 0 ? '-' : ''}${digits.slice(0, point)}${fraction}`
}
