/** Pauses after failures of the API server, so that it is not called during an outage. */

import { BoundedMap } from '../../runtime/bounded-map.ts'

/** One failure, such as a 429, says little: the next call may succeed. */
const several = 3
const pauseMs = 1_000
/** How long a trial may take: the timeout of a call. */
const trialMs = 5_000
/** Maximum number of owners; at least half as many are remembered, those that called last. */
const maxOwners = 20_000

/**
 * Pauses the calls of an owner after several consecutive failures of its own, so that it cannot pause the others; and
 * all calls after failures of several owners without a success between them, because the API server is then
 * unavailable. `monotonic` is a clock in milliseconds.
 */
export function createFailurePauses(monotonic: () => number) {
  const failures = new BoundedMap<string, { readonly inARow: number; readonly at: number }>(
    maxOwners,
  )
  /** Owners with failures since the last success of any owner; at most `several`. */
  const failing = new Set<string>()
  let failedAt = Number.NEGATIVE_INFINITY

  return {
    /**
     * Whether the API server must not be called for this owner now. The first call after a pause is a trial, which may hang: all
     * others stay paused until it ends.
     */
    isPaused(owner: string): boolean {
      const now = monotonic()
      const own = failures.get(owner)
      const isOwn = own !== undefined && own.inARow >= several
      const isAll = failing.size >= several
      if ((isAll && now - failedAt < pauseMs) || (isOwn && now - own.at < pauseMs)) return true
      if (isAll) failedAt = now + trialMs
      if (isOwn) failures.set(owner, { ...own, at: now + trialMs })
      return false
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
