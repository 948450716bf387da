/** Reproducible random choices from one seed. */
import { createHash } from 'node:crypto'

export interface Dice {
  /** A random integer below `limit`. */
  below(limit: number): number
  pick<T>(among: readonly T[]): T
  /** True with a probability of `percent` / 100. */
  chance(percent: number): boolean
}

/** A seed from words; the same for the same words. */
export function seedOf(...words: readonly (string | number)[]): number {
  return createHash('sha256').update(words.join(' ')).digest().readUInt32LE()
}

/** mulberry32, which is fast: a case needs dozens of numbers. */
export function createDice(seed: number): Dice {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    below,
    pick: (among) => {
      if (among.length === 0) throw new Error('nothing to pick from')
      return among[below(among.length)] as (typeof among)[number]
    },
    chance: (percent) => next() * 100 < percent,
  }
}
