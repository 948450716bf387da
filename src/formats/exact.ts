/**
 * Exact whole numbers: a number as long as it is safe, a bigint beyond. So token counts cost no more than numbers, and
 * money may be counted in units of 10⁻⁹ up to 2⁶³.
 */
export type Exact = number | bigint

/** The largest value that Postgres and Redis can store. */
export const mostExact = 2n ** 63n - 1n

/** The sum, at most `mostExact`. */
export function plus(one: Exact, other: Exact): Exact {
  if (typeof one === 'number' && typeof other === 'number') {
    const sum = one + other
    if (Number.isSafeInteger(sum)) return sum
  }
  const sum = BigInt(one) + BigInt(other)
  return sum < mostExact ? normalize(sum) : mostExact
}

export function minus(one: Exact, other: Exact): Exact {
  if (typeof one === 'number' && typeof other === 'number') {
    const difference = one - other
    if (Number.isSafeInteger(difference)) return difference
  }
  return normalize(BigInt(one) - BigInt(other))
}

export function greatest(one: Exact, other: Exact): Exact {
  return one >= other ? one : other
}

/** The value in its one valid representation. */
export function normalize(value: bigint): Exact {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** Returns undefined for text that is not a whole number from 0 to `mostExact` in decimal digits. */
export function parseExact(text: string): Exact | undefined {
  if (!/^\d{1,19}$/.test(text)) return undefined
  const value = BigInt(text)
  return value > mostExact ? undefined : normalize(value)
}

/**
 * Reads a value from JSON or Lua, whose numbers are doubles and which therefore write larger values as text. Returns
 * undefined for anything else.
 */
export function readExact(written: number | string | undefined): Exact | undefined {
  return typeof written === 'string' ? parseExact(written) : written
}
