/**
 * Hashes that the store has recently reported as unknown, to avoid looking them up again at once.
 */

export interface UnknownHashesOptions {
  /** The most hashes; the oldest are dropped. */
  readonly entries: number
  /**
   * The longest time in milliseconds that each is kept; at least half of it while there is room.
   */
  readonly keptMs: number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
}

/**
 * Two sets, of which the older is dropped as a whole. A single map in time order would have to step
 * over all deleted entries at every invented key.
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
