/**
 * A histogram of positive values on a logarithmic scale, in which older values count less and less. A
 * prior counts as much as some values, so that it has a shape from the first one on. Its size is constant.
 */

import { DecayingSums } from './decaying-sums.ts'
import { bucketOf, type Scale, Shape } from './shape.ts'

/** What is left of a value's weight after the next one: half of it after 230 values. */
const decay = 0.997
/** As many values as a histogram of more of the same counts as, and a shape that nobody has measured. */
const supersetWeight = 20
const guessWeight = 3
/** The shape follows after this many values; until so many are known, after each. */
const refreshEvery = 16
const alwaysRefreshed = 64

/** A known distribution, or a histogram that is a superset of this one. */
export type Prior = Shape | LogHistogram

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
