/**
 * Notices that this process stood still: stopped by a signal, a suspended machine, a long garbage
 * collection. What happened meanwhile it can not have heard.
 */

export interface PauseWatch {
  /** Milliseconds by a clock that never goes back and that a suspended machine does not stop. */
  now(): number
  /** `now()` of when a pause was last noticed; -Infinity before the first. */
  resumedAt(): number
  stop(): void
}

const pulseMs = 100
/** A pulse that comes this much too late means a pause. */
const lateMs = 400

const clocks = { monotonic: () => performance.now(), wall: () => Date.now() }

/**
 * Every look at the clock also looks for a pause: after one, the first thing to run may be a
 * request that waited, well before any timer.
 */
export function startPauseWatch({ monotonic, wall } = clocks): PauseWatch {
  let seenMonotonic = monotonic()
  let seenWall = wall()
  let passed = 0
  let resumedAt = Number.NEGATIVE_INFINITY

  function now(): number {
    const monotonicMs = monotonic() - seenMonotonic
    const wallMs = wall() - seenWall
    seenMonotonic += monotonicMs
    seenWall += wallMs
    // The monotonic clock stands still while the machine is suspended, the other one may be set:
    // of a large difference the longer time is the safe one.
    const passedMs = wallMs > monotonicMs + lateMs ? wallMs : monotonicMs
    passed += passedMs
    if (passedMs > pulseMs + lateMs) resumedAt = passed
    return passed
  }

  const pulse = setInterval(now, pulseMs)
  pulse.unref()
  return {
    now,
    resumedAt() {
      now()
      return resumedAt
    },
    stop: () => clearInterval(pulse),
  }
}
