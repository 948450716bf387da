/** Hashes that the store has just said it does not know, so that it is not asked again at once. */

export interface UnknownHashes {
  has(hash: string): boolean
  add(hash: string): void
  delete(hash: string): void
}

export interface UnknownHashesOptions {
  /** Kept at most; the oldest make room. */
  readonly entries: number
  /** Milliseconds that each is kept. */
  readonly keptMs: number
  /** Milliseconds that never go back. */
  readonly monotonic: () => number
}

/** Hashes with an end, in the order in which they came, which is also that of their ends. */
export function createUnknownHashes(options: UnknownHashesOptions): UnknownHashes {
  const { entries, keptMs, monotonic } = options
  const ends = new Map<string, number>()

  return {
    has(hash) {
      const end = ends.get(hash)
      return end !== undefined && end > monotonic()
    },
    add(hash) {
      const now = monotonic()
      ends.delete(hash)
      ends.set(hash, now + keptMs)
      for (const [oldest, end] of ends) {
        if (end > now && ends.size <= entries) break
        ends.delete(oldest)
      }
    },
    delete: (hash) => void ends.delete(hash),
  }
}
