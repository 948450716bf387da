/**
 * A histogram of positive values on a logarithmic scale, in which older values count less and less. A
 * prior counts as much as some values, so that it has a shape from the first one on. Its size is constant. The shape says
 * of the next value moments and quantiles, each in constant time.
 */

import { DecayingSums } from './decaying-sums.ts'

export interface Moments {
  readonly mean: number
  readonly variance: number
}

/** The output that is now expected of a request in progress. */
export interface Growth extends Moments {
  /** 0 by default. */
  readonly inputVariance?: number
}

/** The buckets of a histogram: `perOctave` for each doubling, the first from 2^(-offset/perOctave). */
export interface Scale {
  readonly perOctave: number
  readonly buckets: number
  readonly offset: number
}

/** The bucket of a value; values beyond the scale are in the first or the last one. */
function bucketOf({ perOctave, buckets, offset }: Scale, value: number): number {
  const bucket = Math.floor(Math.log2(Math.max(value, 1e-9)) * perOctave + offset)
  return Math.min(buckets - 1, Math.max(0, bucket))
}

/** The geometric middle of a bucket. */
export function middleOf({ perOctave, offset }: Scale, bucket: number): number {
  return 2 ** ((bucket + 0.5 - offset) / perOctave)
}

/** An immutable distribution over the buckets of a scale. */
export class Shape {
  /** Shares by bucket; their sum is 1. */
  readonly shares: Float64Array
  readonly #scale: Scale
  /** Sums over the buckets before each: of shares, and of shares times their middles and squares. */
  readonly #before: Float64Array
  readonly #firsts: Float64Array
  readonly #seconds: Float64Array
  /** Of a value that is not cut. */
  readonly whole: Moments
  /** The last share that was asked for, and its quantile. */
  #asked = Number.NaN
  #quantile = 0

  constructor(shares: Float64Array, scale: Scale) {
    const size = shares.length + 1
    this.shares = shares
    this.#scale = scale
    this.#before = new Float64Array(size)
    this.#firsts = new Float64Array(size)
    this.#seconds = new Float64Array(size)
    for (let i = 0; i + 1 < size; i += 1) {
      const share = shares[i] as number
      const middle = middleOf(scale, i)
      this.#before[i + 1] = (this.#before[i] as number) + share
      this.#firsts[i + 1] = (this.#firsts[i] as number) + share * middle
      this.#seconds[i + 1] = (this.#seconds[i] as number) + share * middle * middle
    }
    this.whole = this.#momentsOf(shares.length, 0)
  }

  /** Moments of a value that is cut at `bound`; Infinity: is not cut. */
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

  /** Where this share of all values is reached, if those of a bucket are spread evenly over it. */
  quantile(share: number): number {
    if (share === this.#asked) return this.#quantile
    const { perOctave, offset } = this.#scale
    let bucket = 0
    // Sums of shares end a rounding error below 1.
    while (bucket < this.shares.length - 1 && (this.#before[bucket + 1] as number) < share - 1e-9) {
      bucket += 1
    }
    const part = (share - (this.#before[bucket] as number)) / (this.shares[bucket] as number)
    this.#asked = share
    // Not a number: an empty bucket, the last one.
    this.#quantile = 2 ** ((bucket + (part < 1 ? part : 1) - offset) / perOctave)
    return this.#quantile
  }

  /**
   * Moments of a value that is cut at `bound` and has reached `seen` already. A value that has gone on
   * beyond all that are known is expected to reach half as much again.
   */
  beyond(seen: number, bound: number): Moments {
    const first = bucketOf(this.#scale, Math.max(1, seen))
    const tail = 1 - (this.#before[first] as number)
    if (tail < 1e-6) return { mean: Math.min(bound, 1.5 * seen), variance: (0.5 * seen) ** 2 }
    let mean = 0
    let square = 0
    for (let i = first; i < this.shares.length; i += 1) {
      const value = Math.min(bound, Math.max(seen, middleOf(this.#scale, i)))
      const share = (this.shares[i] as number) / tail
      mean += share * value
      square += share * value * value
    }
    return { mean, variance: Math.max(0, square - mean * mean) }
  }

  /** The number of buckets whose middle is below this value. */
  #below(bound: number): number {
    const bucket = bucketOf(this.#scale, bound)
    return middleOf(this.#scale, bucket) < bound ? bucket + 1 : bucket
  }
}

/** What is left of a value's weight after the next one: half of it after 230 values. */
const decay = 0.997
/** As many values as a histogram of more of the same counts as, and a shape that nobody has measured. */
const supersetWeight = 20
const guessWeight = 3
/** The shape follows after this many values; until so many are known, after each. */
const refreshEvery = 16
const alwaysRefreshed = 64

/** A known distribution, or a histogram that is a superset of this one. */
type Prior = Shape | LogHistogram

export class LogHistogram {
  readonly #scale: Scale
  readonly #prior: Prior
  /** By bucket. After others have changed them, call `refresh`. */
  readonly weights: DecayingSums
  #added = 0
  #shapedAt = -1
  #shape: Shape | undefined

  constructor(scale: Scale, prior: Prior) {
    this.#scale = scale
    this.#prior = prior
    this.weights = new DecayingSums(decay, new Float64Array(scale.buckets))
  }

  get shape(): Shape {
    const age = this.#added - this.#shapedAt
    const isFresh = this.#added < alwaysRefreshed ? age === 0 : age < refreshEvery
    if (this.#shape === undefined || !isFresh) {
      this.#shape = new Shape(this.#shares(), this.#scale)
      this.#shapedAt = this.#added
    }
    return this.#shape
  }

  /** `cut`: the value would have been this or more, had it not been cut off. */
  add(value: number, cut = false): void {
    const bucket = bucketOf(this.#scale, value)
    const known = cut ? this.shape.shares : undefined
    this.weights.next()
    this.#added += 1
    if (known === undefined) this.weights.put(bucket, 1)
    else this.#spread(known, bucket)
  }

  /** Lets the shape follow the weights. */
  refresh(): void {
    this.#shape = undefined
  }

  /** Adds one value to all buckets from this one on, as the values known so far are spread. */
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
