/**
 * Sums of vectors in which older ones count less and less: what all processes know, and what this one has
 * added since it last shared. Adding decays both alike, so that the order of processes does not matter much.
 */

/** What one process has added: the sums of all become `kept` of them, plus these. */
export interface Delta {
  readonly kept: number
  readonly sums: Float64Array
  /** The sums of all if nobody has shared any before. */
  readonly whole: Float64Array
}

/** Vectors grow instead of all sums being decayed one by one, up to this. */
const maxUnit = 1e100

export class DecayingSums {
  readonly #decay: number
  /** As of the last sharing. */
  #shared: Float64Array
  /** Added since, in units of the next vector. */
  readonly #own: Float64Array
  #unit = 1
  #count = 0
  /** What is being shared, and how many vectors have been added before. */
  #taken: { readonly delta: Delta; readonly count: number } | undefined

  /** `decay`: what is left of a vector after the next one. */
  constructor(decay: number, first: Float64Array) {
    this.#decay = decay
    this.#shared = first
    this.#own = new Float64Array(first.length)
  }

  get length(): number {
    return this.#own.length
  }

  /** Begins a vector: what `put` adds from now on belongs to it. */
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

  /** The sums as they are now. */
  read(): Float64Array {
    const kept = this.#decay ** this.#count
    return this.#shared.map((sum, i) => sum * kept + this.#ownAt(i))
  }

  /** What is to be shared; undefined: nothing. It counts as unshared until `settle`. */
  take(): Delta | undefined {
    if (this.#count === 0) return undefined
    const sums = this.#own.map((_, i) => this.#ownAt(i))
    const delta = { kept: this.#decay ** this.#count, sums, whole: this.read() }
    this.#taken = { delta, count: this.#count }
    return delta
  }

  /** What was taken has been shared. */
  settle(): void {
    if (this.#taken === undefined) return
    const { delta, count } = this.#taken
    this.#taken = undefined
    this.#count -= count
    const left = this.#decay ** this.#count
    for (let i = 0; i < this.#own.length; i += 1) {
      // Nothing is below 0, as rounding might leave it.
      const own = Math.max(0, this.#ownAt(i) - left * (delta.sums[i] as number))
      this.#own[i] = this.#count === 0 ? 0 : own * this.#unit
    }
    this.#shared = delta.whole
  }

  /** What all processes have shared, as just read. */
  replace(shared: Float64Array): void {
    this.#shared = shared
  }

  #ownAt(at: number): number {
    return (this.#own[at] as number) / this.#unit
  }
}
