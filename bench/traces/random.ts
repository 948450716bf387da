/** Reproducible random numbers for traces: the same seed gives the same trace on every machine. */

export interface Draw {
  /** From 0 to below 1. */
  uniform(): number
  /** With mean 0 and standard deviation 1. */
  normal(): number
  /** A log-normal value; `sigma` of its natural logarithm. */
  around(median: number, sigma: number): number
  oneOf<T>(choices: readonly (readonly [share: number, value: T])[]): T
}

export function createDraw(seed: number): Draw {
  let state = seed >>> 0
  // mulberry32
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let x = Math.imul(state ^ (state >>> 15), state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform())
  return {
    uniform,
    normal,
    around: (median, sigma) => median * Math.exp(sigma * normal()),
    oneOf(choices) {
      let at = uniform()
      for (const [share, value] of choices) {
        at -= share
        if (at < 0) return value
      }
      return (choices.at(-1) as (typeof choices)[number])[1]
    },
  }
}
