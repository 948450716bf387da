/**
 * A histogram of positive values on a logarithmic scale, in which older values count less and less. A
 * prior, a shape or another histogram, counts as much as twenty values, so that it has a shape from
 * the first one on. Its size is constant.
 */

import { bucketOf, type Scale, Shape } from './shape.ts'

/** What is left of a value's weight after the next one: half of it after 230 values. */
const decay = 0.997
const priorWeight = 20
/** The shape follows after this many values; until so many are known, after each. */
const refreshEvery = 16
const alwaysRefreshed = 64
/** Weights grow instead of being decayed one by one, up to this. */
const maxUnit = 1e100

/** A known distribution, or a histogram that is a superset of this one. */
export type Prior = Shape | LogHistogram

export class LogHistogram {
  readonly #scale: Scale
  readonly #prior: Prior
  readonly #weights: Float64Array
  /** The weight of the next value. */
  #unit = 1
  #added = 0
  #shapedAt = -1
  #shape: Shape | undefined

  constructor(scale: Scale, prior: Prior) {
    this.#scale = scale
    this.#prior = prior
    this.#weights = new Float64Array(scale.buckets)
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
    this.#unit /= decay
    this.#added += 1
    if (known === undefined) this.#put(bucket, 1)
    else this.#spread(known, bucket)
    if (this.#unit > maxUnit) {
      for (let i = 0; i < this.#weights.length; i += 1) {
        this.#weights[i] = (this.#weights[i] as number) / this.#unit
      }
      this.#unit = 1
    }
  }

  /** Adds one value to all buckets from this one on, as the values known so far are spread. */
  #spread(shares: Float64Array, from: number): void {
    let tail = 0
    for (let i = from; i < shares.length; i += 1) tail += shares[i] as number
    if (tail <= 1e-6) {
      this.#put(Math.min(shares.length - 1, from + (this.#scale.perOctave >> 1)), 1)
    } else {
      for (let i = from; i < shares.length; i += 1) this.#put(i, (shares[i] as number) / tail)
    }
  }

  #put(bucket: number, share: number): void {
    this.#weights[bucket] = (this.#weights[bucket] as number) + this.#unit * share
  }

  #shares(): Float64Array {
    const prior = this.#prior instanceof LogHistogram ? this.#prior.shape : this.#prior
    let total = priorWeight
    for (const weight of this.#weights) total += weight / this.#unit
    return this.#weights.map(
      (weight, i) => (weight / this.#unit + priorWeight * (prior.shares[i] as number)) / total,
    )
  }
}
