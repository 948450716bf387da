/** Prices, as people and tools write them. */

const form = /^(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,3}))?$/
/** What the ledger has room for. */
const maxWhole = 12
export const maxFraction = 24

/**
 * A decimal number of at least 0, also `1.5e-07` or `.5`, without exponent: `0.00000015`. undefined:
 * it is none, or has more than 12 digits before the point or 24 behind it.
 */
export function readPrice(raw: string): string | undefined {
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
