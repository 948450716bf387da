/**
 * Open holds by request id, in columns of numbers: below a hundred bytes each, where objects in a Map
 * take three times as much. Open addressing; what follows a removed hold moves up.
 */

import type { Hold } from '../../core/admission/hold.ts'
import type { IdWords } from './request-ids.ts'

/** Of an id. */
const wordCount = 3
/** Mean, variance, output, ceiling, cap, end of the lease. */
const columns = 6
const fewestSlots = 64
const growth = 1.25
const fullest = 0.8
const emptiest = 0.2

/** `Owner`: what a hold belongs to, the same object for many. A slot is valid until the next change. */
export class HoldTable<Owner extends object> {
  #slots = fewestSlots
  #ids = new Uint32Array(fewestSlots * wordCount)
  #numbers = new Float64Array(fewestSlots * columns)
  #owners = new Array<Owner | undefined>(fewestSlots).fill(undefined)
  #size = 0
  /** Whoever chooses ids cannot know which collide. */
  readonly #seed = Math.floor(Math.random() * 2 ** 31) * 2 + 1

  get size(): number {
    return this.#size
  }

  /** The slot of this id; -1 if it holds nothing. */
  find(words: IdWords): number {
    const slot = this.#seek(words)
    return this.#owners[slot] === undefined ? -1 : slot
  }

  /** The id must be new. */
  add(words: IdWords, owner: Owner, hold: Hold, cap: number, endsAt: number): void {
    const share = (this.#size + 1) / this.#slots
    if (share > fullest) this.#resize(Math.ceil(this.#slots * growth))
    else if (share < emptiest && this.#slots > fewestSlots) this.#resize(this.#slots >> 1)
    const slot = this.#seek(words)
    this.#size += 1
    this.#owners[slot] = owner
    this.#ids.set(words, slot * wordCount)
    this.#numbers[slot * columns + 4] = cap
    this.change(slot, hold, endsAt)
  }

  change(slot: number, hold: Hold, endsAt: number): void {
    const at = slot * columns
    const numbers = this.#numbers
    numbers[at] = hold.mean
    numbers[at + 1] = hold.variance
    numbers[at + 2] = hold.output
    numbers[at + 3] = hold.ceiling
    numbers[at + 5] = endsAt
  }

  ownerAt(slot: number): Owner {
    return this.#owners[slot] as Owner
  }

  holdAt(slot: number): Hold {
    return {
      mean: this.#number(slot, 0),
      variance: this.#number(slot, 1),
      output: this.#number(slot, 2),
      ceiling: this.#number(slot, 3),
    }
  }

  capAt(slot: number): number {
    return this.#number(slot, 4)
  }

  endsAt(slot: number): number {
    return this.#number(slot, 5)
  }

  remove(slot: number): void {
    this.#size -= 1
    let free = slot
    for (let next = this.#after(slot); this.#owners[next] !== undefined; next = this.#after(next)) {
      const home = this.#homeOf(this.#ids, next * wordCount)
      // It stays if it would come before its home, on the circle.
      const distance = (next - home + this.#slots) % this.#slots
      if (distance < (next - free + this.#slots) % this.#slots) continue
      this.#move(next, free)
      free = next
    }
    this.#owners[free] = undefined
  }

  /** Calls `end` with each hold whose lease this matches; `end` must remove it. */
  sweep(isOver: (endsAt: number) => boolean, end: (slot: number) => void): void {
    for (let slot = 0; slot < this.#slots; slot += 1) {
      while (this.#owners[slot] !== undefined && isOver(this.endsAt(slot))) end(slot)
    }
  }

  #number(slot: number, column: number): number {
    return this.#numbers[slot * columns + column] as number
  }

  /** The slot of this id, or the free one where it belongs. */
  #seek(words: IdWords): number {
    const [first, second, third] = words
    let slot = this.#homeOf(words, 0)
    while (this.#owners[slot] !== undefined) {
      const at = slot * wordCount
      const ids = this.#ids
      if (ids[at] === first && ids[at + 1] === second && ids[at + 2] === third) return slot
      slot = this.#after(slot)
    }
    return slot
  }

  #homeOf(words: IdWords, at: number): number {
    const mixed = Math.imul((words[at] as number) ^ (words[at + 2] as number), this.#seed) >>> 0
    return Math.floor((mixed / 2 ** 32) * this.#slots)
  }

  #after(slot: number): number {
    return slot + 1 === this.#slots ? 0 : slot + 1
  }

  #move(from: number, to: number): void {
    this.#owners[to] = this.#owners[from]
    this.#ids.copyWithin(to * wordCount, from * wordCount, (from + 1) * wordCount)
    this.#numbers.copyWithin(to * columns, from * columns, (from + 1) * columns)
  }

  #resize(slots: number): void {
    const [ids, numbers, owners] = [this.#ids, this.#numbers, this.#owners]
    this.#slots = slots
    this.#ids = new Uint32Array(slots * wordCount)
    this.#numbers = new Float64Array(slots * columns)
    this.#owners = new Array<Owner | undefined>(slots).fill(undefined)
    for (const [slot, owner] of owners.entries()) {
      if (owner === undefined) continue
      const words = ids.subarray(slot * wordCount, (slot + 1) * wordCount)
      const to = this.#seek(words)
      this.#owners[to] = owner
      this.#ids.set(words, to * wordCount)
      this.#numbers.set(numbers.subarray(slot * columns, (slot + 1) * columns), to * columns)
    }
  }
}
