/**
 * Exponentially decaying sums of vectors: the shared sums of all processes, and this one's additions since its last
 * exchange. Adding decays both alike, so that the order of processes matters little.
 */

/** The additions of one process: the shared sums are multiplied by `kept`, then these are added. */
export interface SumsDelta {
  readonly kept: number
  readonly sums: Float64Array
  /** The shared sums if there were none before. */
  readonly whole: Float64Array
}

/** New vectors get larger weights instead of decaying all sums one by one, up to this weight. */
const maxUnit = 1e100

export class DecayingSums {
  readonly #decay: number
  /** The shared sums as of the last exchange. */
  #shared: Float64Array
  /** Added since then, in units of the next vector's weight. */
  readonly #own: Float64Array
  #unit = 1
  #count = 0
  /** The additions that are being shared, and the number of vectors in them. */
  #taken: { readonly delta: SumsDelta; readonly count: number } | undefined

  /** `decay`: the factor that each vector applies to the vectors before it. */
  constructor(decay: number, first: Float64Array) {
    this.#decay = decay
    this.#shared = first
    this.#own = new Float64Array(first.length)
  }

  get length(): number {
    return this.#own.length
  }

  /** Begins a vector, to which `put` adds. */
  next(): void {
    this.#unit /= this.#decay
    this.#count += 1
    if (this.#unit <= maxUnit) return
    for (let i = 0; i < this.#own.length; i += 1) this.#own[i] = this.#ownAt(i)
    this.#unit = 1
  }

  put(at: number, amount: number): void {
    this.#own[at] = (this.#own[at] as number) + this.#unit * amount
  }

  /** The current sums. */
  read(): Float64Array {
    const kept = this.#decay ** this.#count
    return this.#shared.map((sum, i) => sum * kept + this.#ownAt(i))
  }

  /** Returns the additions to share, or undefined if there are none. They count as unshared until `settle`. */
  take(): SumsDelta | undefined {
    if (this.#count === 0) return undefined
    const sums = this.#own.map((_, i) => this.#ownAt(i))
    const delta = { kept: this.#decay ** this.#count, sums, whole: this.read() }
    this.#taken = { delta, count: this.#count }
    return delta
  }

  /** Confirms that the additions taken last have been shared. */
  settle(): void {
    if (this.#taken === undefined) return
    const { delta, count } = this.#taken
    this.#taken = undefined
    this.#count -= count
    const left = this.#decay ** this.#count
    for (let i = 0; i < this.#own.length; i += 1) {
      // Rounding must not leave negative values.
      const own = Math.max(0, this.#ownAt(i) - left * (delta.sums[i] as number))
      this.#own[i] = this.#count === 0 ? 0 : own * this.#unit
    }
    this.#shared = delta.whole
  }

  /** Replaces the shared sums by those just read. */
  replace(shared: Float64Array): void {
    this.#shared = shared
  }

  #ownAt(at: number): number {
    return (this.#own[at] as number) / this.#unit
  }
}
