/** Hashes that the store has just said it does not know, so that it is not asked again at once. */

export interface UnknownHashesOptions {
  /** Kept at most; the oldest make room. */
  readonly entries: number
  /** Milliseconds that each is kept at most; at least half as long, while there is room. */
  readonly keptMs: number
  /** Milliseconds that never go back. */
  readonly monotonic: () => number
}

/**
 * Two sets, of which the older is dropped whole. One map in the order of time would have to step
 * over all it has deleted, at every key that somebody invents.
 */
export function createUnknownHashes(options: UnknownHashesOptions) {
  const { entries, keptMs, monotonic } = options
  let young = new Set<string>()
  let old = new Set<string>()
  let youngSince = monotonic()
  let oldSince = youngSince

  function turnOver(now: number): void {
    old = young
    oldSince = youngSince
    young = new Set()
    youngSince = now
  }

  function drop(): void {
    const now = monotonic()
    if (now - youngSince >= keptMs / 2) turnOver(now)
    if (old.size > 0 && now - oldSince >= keptMs) old = new Set()
  }

  return {
    has(hash: string): boolean {
      drop()
      return young.has(hash) || old.has(hash)
    },
    add(hash: string): void {
      drop()
      if (young.size >= entries / 2) turnOver(monotonic())
      young.add(hash)
    },
    delete(hash: string): void {
      young.delete(hash)
      old.delete(hash)
    },
  }
}
