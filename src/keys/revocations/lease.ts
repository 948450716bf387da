/**
 * How long a process may trust its cache: one lease after the last successful poll of the log. A
 * process that was paused finds its lease expired.
 */

/** A clock difference above this is a suspended machine, not an adjustment. */
const suspendedMs = 400

const clocks = { monotonic: () => performance.now(), wall: () => Date.now() }

/** A lease that is not held yet. A poll must time out before the lease expires. */
export function createCacheLease(leaseMs: number, { monotonic, wall } = clocks) {
  let seenMonotonic = monotonic()
  let seenWall = wall()
  let passed = 0
  let renewedAt = Number.NEGATIVE_INFINITY
  let failedAt = Number.NEGATIVE_INFINITY

  function now(): number {
    const monotonicMs = monotonic() - seenMonotonic
    const wallMs = wall() - seenWall
    seenMonotonic += monotonicMs
    seenWall += wallMs
    // The monotonic clock stops while the machine is suspended, and the wall clock may be adjusted.
    // If they differ a lot, the longer time is the safe one.
    passed += wallMs > monotonicMs + suspendedMs ? wallMs : monotonicMs
    return passed
  }

  return {
    /** Milliseconds of a monotonic clock that includes time while the machine is suspended. */
    now,
    /** Everything committed before `sentAt` has been applied. */
    renew(sentAt: number) {
      renewedAt = Math.max(renewedAt, sentAt)
    },
    /** The poll sent at this time failed. */
    fail(sentAt: number) {
      // A poll in flight during a pause has failed because of it, though nothing may be wrong.
      if (now() - sentAt < leaseMs) failedAt = Math.max(failedAt, sentAt)
    },
    state() {
      const instant = now()
      if (failedAt > renewedAt && instant - failedAt < 2 * leaseMs) return 'unavailable'
      return instant - renewedAt < leaseMs ? 'confirmed' : 'unconfirmed'
    },
    ageMs: () => now() - renewedAt,
  }
}
