/** Pauses after failures of the API server, so that it is not called during an outage. */

import { BoundedMap } from '../../runtime/bounded-map.ts'

/** One failure, such as a 429, says little: the next call may succeed. */
const several = 3
const pauseMs = 1_000
/** Maximum number of owners; at least half as many are remembered, those that called last. */
const maxOwners = 20_000

/**
 * Pauses the calls of an owner after several consecutive failures of its own, so that it cannot pause the others; and
 * all calls after failures of several owners without a success between them, because the API server is then
 * unavailable. `monotonic` is a clock in milliseconds.
 */
export function createPauses(monotonic: () => number) {
  const failures = new BoundedMap<string, { readonly inARow: number; readonly at: number }>(
    maxOwners,
  )
  /** Owners with failures since the last success of any owner; at most `several`. */
  const failing = new Set<string>()
  let failedAt = Number.NEGATIVE_INFINITY

  return {
    /** Whether the API server must not be called for this owner now. */
    isPaused(owner: string): boolean {
      const now = monotonic()
      if (failing.size >= several && now - failedAt < pauseMs) return true
      const own = failures.get(owner)
      return own !== undefined && own.inARow >= several && now - own.at < pauseMs
    },
    failed(owner: string): void {
      failedAt = monotonic()
      if (failing.size < several) failing.add(owner)
      failures.set(owner, { inARow: (failures.get(owner)?.inARow ?? 0) + 1, at: failedAt })
    },
    succeeded(owner: string): void {
      failing.clear()
      failures.delete(owner)
    },
  }
}
