import { hash } from 'node:crypto'
import { getOrAdd } from '../formats/lists.ts'

/**
 * A map of at most `max` entries: those set or read last, at least half as many. It has two generations, of which the
 * older is dropped as a whole. A single map in insertion order would step over all deleted entries whenever it searched
 * for the oldest.
 */
export class BoundedMap<Key, Value> {
  readonly #half: number
  #young = new Map<Key, Value>()
  #old = new Map<Key, Value>()

  constructor(max: number) {
    this.#half = max / 2
  }

  /** Does not count as a read. */
  has(key: Key): boolean {
    return this.#young.has(key) || this.#old.has(key)
  }

  get(key: Key): Value | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: Key, value: Value): void {
    if (this.#young.size >= this.#half) this.turnOver()
    this.#old.delete(key)
    this.#young.set(key, value)
  }

  delete(key: Key): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }

  /** Drops entries that were neither set nor read since the last call. */
  turnOver(): void {
    this.#old = this.#young
    this.#young = new Map()
  }
}

/** The size of the pools of shared texts and lists. */
const maxShared = 65_536

/**
 * Returns equal texts, and equal lists of texts, as one: caches of many entries then store each once, while it is pooled.
 * `maxLists`: of a cache with fewer entries, their number: the pool would keep lists alive that no entry has.
 */
export function createInternPools(maxLists = maxShared) {
  const texts = new BoundedMap<string, string>(maxShared)
  const lists = new BoundedMap<string, readonly string[]>(maxLists)

  const shareText = (text: string): string => getOrAdd(texts, text, () => text)

  return {
    text: shareText,
    list(list: readonly string[]): readonly string[] {
      const json = JSON.stringify(list)
      // The text itself would take more memory than the list.
      const key = hash('sha256', json, 'base64')
      // Parsed again: a substring of a longer text, such as a driver's, would keep all of that text alive.
      return getOrAdd(lists, key, () => (JSON.parse(json) as string[]).map(shareText))
    },
  }
}
