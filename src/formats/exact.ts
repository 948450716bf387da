/**
 * Whole numbers that are never rounded: a number while it is a safe one, a bigint beyond. So figures of tokens cost what
 * numbers cost, and money may be counted in units of 10⁻⁹ up to 2⁶³.
 */
export type Exact = number | bigint

/** The most that Postgres and Redis have room for. */
export const mostExact = 2n ** 63n - 1n

/** At most `mostExact`. */
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

/** The same value in the form that all others have. */
export function normalize(value: bigint): Exact {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** undefined: it is no whole number of 0 or more in decimal digits, or more than `mostExact`. */
export function parseExact(text: string): Exact | undefined {
  if (!/^\d{1,19}$/.test(text)) return undefined
  const value = BigInt(text)
  return value > mostExact ? undefined : normalize(value)
}

/** Where numbers are doubles, as in JSON and Lua, larger values are text in digits. undefined: it is neither. */
export function readExact(written: number | string | undefined): Exact | undefined {
  return typeof written === 'string' ? parseExact(written) : written
}
