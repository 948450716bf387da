/**
 * Hashes that the store has recently reported as unknown, to avoid looking them up again at once.
 */

import { BoundedMap } from '../runtime/bounded-map.ts'

interface UnknownHashesOptions {
  /** Maximum number of hashes; the oldest are dropped. */
  readonly entries: number
  /** Maximum time in milliseconds that each is cached; at least half of it while there is room. */
  readonly keptMs: number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
}

export function createUnknownHashes({ entries, keptMs, monotonic }: UnknownHashesOptions) {
  const hashes = new BoundedMap<string, true>(entries)
  let turnedAt = monotonic()

  function drop(): void {
    const turns = Math.floor((monotonic() - turnedAt) / (keptMs / 2))
    turnedAt += (turns * keptMs) / 2
    for (let turn = 0; turn < Math.min(turns, 2); turn += 1) hashes.turnOver()
  }

  return {
    has(hash: string): boolean {
      drop()
      return hashes.has(hash)
    },
    add(hash: string): void {
      drop()
      hashes.set(hash, true)
    },
    delete: (hash: string): void => hashes.delete(hash),
  }
}
