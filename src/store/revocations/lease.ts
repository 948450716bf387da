/**
 * For how long what a process remembers may be believed: one lease after the last question to the
 * log that was answered. A process that was paused finds its lease at an end.
 */

import type { Freshness } from '../freshness.ts'

export interface Lease extends Pick<Freshness, 'state' | 'ageMs'> {
  /** Milliseconds by a clock that never goes back and that a suspended machine does not stop. */
  now(): number
  /** All that was committed before `sentAt` has been taken in. */
  renew(sentAt: number): void
  /** A question sent then was not answered. */
  fail(sentAt: number): void
}

/** A difference of the clocks that is a suspended machine, not an adjustment. */
const suspendedMs = 400

const clocks = { monotonic: () => performance.now(), wall: () => Date.now() }

/** A lease that is not held yet. A question has to be given up in less time than it lasts. */
export function createLease(leaseMs: number, { monotonic, wall } = clocks): Lease {
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
    // The monotonic clock stands still while the machine is suspended, the other one may be set:
    // of a large difference the longer time is the safe one.
    passed += wallMs > monotonicMs + suspendedMs ? wallMs : monotonicMs
    return passed
  }

  return {
    now,
    renew(sentAt) {
      renewedAt = Math.max(renewedAt, sentAt)
    },
    fail(sentAt) {
      // One that was under way during a pause has failed by it, though nothing may be wrong.
      if (now() - sentAt < leaseMs) failedAt = Math.max(failedAt, sentAt)
    },
    state() {
      const instant = now()
      if (failedAt > renewedAt && instant - failedAt < 2 * leaseMs) return 'away'
      return instant - renewedAt < leaseMs ? 'confirmed' : 'unconfirmed'
    },
    ageMs: () => now() - renewedAt,
  }
}
