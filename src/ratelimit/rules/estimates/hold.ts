/** The tokens that an open request holds of a limit, and the sums of all that are open. */

import type { Moments } from './shape.ts'

/** Whole numbers of tokens, and of their squares for the variance, so that sums are exact. */
export interface HeldTokens {
  /** Expected input and output. */
  readonly mean: number
  readonly variance: number
  /** Expected output alone: what estimates of like requests have wrong together. */
  readonly output: number
  /** The most that the request can use, unless its input was estimated too low. */
  readonly ceiling: number
}

/** The sums over the open holds of a counter. */
export interface Sums extends HeldTokens {
  readonly count: number
}

/** The most of one hold: sums of more would not be exact, nor whole numbers for Redis. */
export const mostVariance = 1e12

export const noHolds: Sums = { count: 0, mean: 0, variance: 0, output: 0, ceiling: 0 }

/**
 * The hold of a request of which this much output is now expected, never less than before, and all tokens of
 * which have this variance.
 */
export function grown(hold: HeldTokens, { mean, variance }: Moments): HeldTokens {
  const most = hold.ceiling - (hold.mean - hold.output)
  const output = Math.max(hold.output, Math.min(Math.ceil(mean), most))
  const { ceiling } = hold
  const spread = Math.min(mostVariance, Math.ceil(variance))
  return { mean: hold.mean - hold.output + output, variance: spread, output, ceiling }
}

/** The sums with a hold more (`sign` 1) or less (-1). */
export function withHold(sums: Sums, hold: HeldTokens, sign: 1 | -1): Sums {
  return {
    count: sums.count + sign,
    mean: sums.mean + sign * hold.mean,
    variance: sums.variance + sign * hold.variance,
    output: sums.output + sign * hold.output,
    ceiling: sums.ceiling + sign * hold.ceiling,
  }
}

/**
 * How long a hold lives, and a place in a limit on concurrency, after the gateway has last reported that its
 * request runs, or has asked for it. The gateway reports every 10 s, also before the first byte of a
 * response, and some reports may be lost: with a process, or while a shared store does not respond.
 */
export const leaseMs = 60_000
