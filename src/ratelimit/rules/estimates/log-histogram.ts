/**
 * A histogram of positive values on a logarithmic scale, with exponential decay. A prior counts as several values, so
 * that it has a shape from the first one on. Its size is constant. The shape gives moments and quantiles of the next
 * value, each in constant time.
 */

import { DecayingSums } from './decaying-sums.ts'

export interface Moments {
  readonly mean: number
  readonly variance: number
}

/** The currently expected output of a request in progress. */
export interface Growth extends Moments {
  /** 0 by default. */
  readonly inputVariance?: number
}

/** The buckets of a histogram: `perOctave` for each doubling, the first from 2^(-offset/perOctave). */
export interface HistogramScale {
  readonly perOctave: number
  readonly buckets: number
  readonly offset: number
}

/** The bucket of a value; values beyond the scale are in the first or the last one. */
function bucketOf({ perOctave, buckets, offset }: HistogramScale, value: number): number {
  const bucket = Math.floor(Math.log2(Math.max(value, 1e-9)) * perOctave + offset)
  return Math.min(buckets - 1, Math.max(0, bucket))
}

/** The geometric middle of a bucket. */
export function bucketMiddle({ perOctave, offset }: HistogramScale, bucket: number): number {
  return 2 ** ((bucket + 0.5 - offset) / perOctave)
}

/** An immutable distribution over the buckets of a scale. */
export class HistogramShape {
  /** Shares by bucket; their sum is 1. */
  readonly shares: Float64Array
  readonly #scale: HistogramScale
  /** Sums over the buckets before each: of shares, and of shares times their middles and squares. */
  readonly #before: Float64Array
  readonly #firsts: Float64Array
  readonly #seconds: Float64Array
  /** Moments of a value that is not cut off. */
  readonly whole: Moments
  /** The last share asked for, and its quantile. */
  #asked = Number.NaN
  #quantile = 0

  constructor(shares: Float64Array, scale: HistogramScale) {
    const size = shares.length + 1
    this.shares = shares
    this.#scale = scale
    this.#before = new Float64Array(size)
    this.#firsts = new Float64Array(size)
    this.#seconds = new Float64Array(size)
    for (let i = 0; i + 1 < size; i += 1) {
      const share = shares[i] as number
      const middle = bucketMiddle(scale, i)
      this.#before[i + 1] = (this.#before[i] as number) + share
      this.#firsts[i + 1] = (this.#firsts[i] as number) + share * middle
      this.#seconds[i + 1] = (this.#seconds[i] as number) + share * middle * middle
    }
    this.whole = this.#momentsOf(shares.length, 0)
  }

  /** Moments of a value that is cut off at `bound`, or not cut off if that is Infinity. */
  bounded(bound: number): Moments {
    return bound === Number.POSITIVE_INFINITY
      ? this.whole
      : this.#momentsOf(this.#below(bound), bound)
  }

  #momentsOf(below: number, bound: number): Moments {
    const rest = below === this.shares.length ? 0 : 1 - (this.#before[below] as number)
    const mean = (this.#firsts[below] as number) + rest * bound
    const square = (this.#seconds[below] as number) + rest * bound * bound
    return { mean, variance: Math.max(0, square - mean * mean) }
  }

  /** The value below which this share of all values is, if the values of a bucket are spread evenly over it. */
  quantile(share: number): number {
    if (share === this.#asked) return this.#quantile
    const { perOctave, offset } = this.#scale
    let bucket = 0
    // The sum of all shares is below 1 by a rounding error.
    while (bucket < this.shares.length - 1 && (this.#before[bucket + 1] as number) < share - 1e-9) {
      bucket += 1
    }
    const part = (share - (this.#before[bucket] as number)) / (this.shares[bucket] as number)
    this.#asked = share
    // NaN for an empty bucket, which is the last one.
    this.#quantile = 2 ** ((bucket + (part < 1 ? part : 1) - offset) / perOctave)
    return this.#quantile
  }

  /**
   * Moments of a value that has reached `seen` and is cut off at `bound`. A value beyond all known ones is expected to
   * grow by half.
   */
  beyond(seen: number, bound: number): Moments {
    const first = bucketOf(this.#scale, Math.max(1, seen))
    const tail = 1 - (this.#before[first] as number)
    if (tail < 1e-6) return { mean: Math.min(bound, 1.5 * seen), variance: (0.5 * seen) ** 2 }
    let mean = 0
    let square = 0
    for (let i = first; i < this.shares.length; i += 1) {
      const value = Math.min(bound, Math.max(seen, bucketMiddle(this.#scale, i)))
      const share = (this.shares[i] as number) / tail
      mean += share * value
      square += share * value * value
    }
    return { mean, variance: Math.max(0, square - mean * mean) }
  }

  /** The number of buckets whose middle is below this value. */
  #below(bound: number): number {
    const bucket = bucketOf(this.#scale, bound)
    return bucketMiddle(this.#scale, bucket) < bound ? bucket + 1 : bucket
  }
}

/** The factor that each value applies to the weights before it: half is left after 230 values. */
const decay = 0.997
/** Weights of priors, in values: of a histogram that is a superset, and of a guess. */
const supersetWeight = 20
const guessWeight = 3
/** The shape is computed again after this many values; at first after each. */
const refreshEvery = 16
const alwaysRefreshed = 64

/** A known distribution, or a histogram that is a superset of this one. */
type Prior = HistogramShape | LogHistogram

export class LogHistogram {
  readonly #scale: HistogramScale
  readonly #prior: Prior
  /** By bucket. After changing them from outside, call `refresh`. */
  readonly weights: DecayingSums
  #added = 0
  #shapedAt = -1
  #shape: HistogramShape | undefined

  constructor(scale: HistogramScale, prior: Prior) {
    this.#scale = scale
    this.#prior = prior
    this.weights = new DecayingSums(decay, new Float64Array(scale.buckets))
  }

  get shape(): HistogramShape {
    const age = this.#added - this.#shapedAt
    const isFresh = this.#added < alwaysRefreshed ? age === 0 : age < refreshEvery
    if (this.#shape === undefined || !isFresh) {
      this.#shape = new HistogramShape(this.#shares(), this.#scale)
      this.#shapedAt = this.#added
    }
    return this.#shape
  }

  /** `cut`: the value was cut off; it would have been this or more. */
  add(value: number, cut = false): void {
    const bucket = bucketOf(this.#scale, value)
    const known = cut ? this.shape.shares : undefined
    this.weights.next()
    this.#added += 1
    if (known === undefined) this.weights.put(bucket, 1)
    else this.#spread(known, bucket)
  }

  /** Makes the next use compute the shape from the current weights. */
  refresh(): void {
    this.#shape = undefined
  }

  /** Spreads one value over the buckets from this one on, in proportion to their shares so far. */
  #spread(shares: Float64Array, from: number): void {
    let tail = 0
    for (let i = from; i < shares.length; i += 1) tail += shares[i] as number
    if (tail <= 1e-6) {
      this.weights.put(Math.min(shares.length - 1, from + (this.#scale.perOctave >> 1)), 1)
    } else {
      for (let i = from; i < shares.length; i += 1) {
        this.weights.put(i, (shares[i] as number) / tail)
      }
    }
  }

  #shares(): Float64Array {
    const isMeasured = this.#prior instanceof LogHistogram
    const { shares } = isMeasured ? this.#prior.shape : this.#prior
    const own = isMeasured ? supersetWeight : guessWeight
    const weights = this.weights.read()
    const total = weights.reduce((sum, weight) => sum + weight, own)
    return weights.map((weight, i) => (weight + own * (shares[i] as number)) / total)
  }
}
