/**
 * Exact whole numbers: a number as long as it is safe, a bigint beyond. So token counts cost no more than numbers, and
 * money may be counted in units of 10⁻⁹ up to 2⁶³.
 */
export type ExactInt = number | bigint

/** The largest value that Postgres and Redis can store. */
export const maxExactInt = 2n ** 63n - 1n

/** The sum, at most `maxExactInt`. */
export function addExact(one: ExactInt, other: ExactInt): ExactInt {
  if (typeof one === 'number' && typeof other === 'number') {
    const sum = one + other
    if (Number.isSafeInteger(sum)) return sum
  }
  const sum = BigInt(one) + BigInt(other)
  return sum < maxExactInt ? toExact(sum) : maxExactInt
}

/** The difference, which may be negative. */
export function subtractExact(one: ExactInt, other: ExactInt): ExactInt {
  if (typeof one === 'number' && typeof other === 'number') {
    const difference = one - other
    if (Number.isSafeInteger(difference)) return difference
  }
  return toExact(BigInt(one) - BigInt(other))
}

/** The higher of the two. */
export function maxExact(one: ExactInt, other: ExactInt): ExactInt {
  return one >= other ? one : other
}

/** The value in its one valid representation. */
export function toExact(value: bigint): ExactInt {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** Returns undefined for text that is not a whole number from 0 to `maxExactInt` in decimal digits. */
export function parseExact(text: string): ExactInt | undefined {
  if (!/^\d{1,19}$/.test(text)) return undefined
  const value = BigInt(text)
  return value > maxExactInt ? undefined : toExact(value)
}

/**
 * Reads a value from JSON or Lua, whose numbers are doubles and which therefore write larger values as text. Returns
 * undefined for anything else.
 */
export function exactFromJson(written: number | string | undefined): ExactInt | undefined {
  return typeof written === 'string' ? parseExact(written) : written
}
