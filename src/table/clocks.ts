/** Approximations of the clocks that the gateway's scripts read. */

import { uptime } from 'node:os'

export interface TableClocks {
  /** Milliseconds since the epoch. */
  real(): number
  /** CLOCK_BOOTTIME in milliseconds, at most 10 ms behind. */
  boot(): number
}

const readEveryMs = 100

/** Node has no clock that runs while the machine is suspended, so it is derived from the system's uptime. */
export function systemClocks(): TableClocks {
  let ahead = Number.NEGATIVE_INFINITY
  let readAt = Number.NEGATIVE_INFINITY
  return {
    real: () => Date.now(),
    boot() {
      const now = performance.now()
      if (now - readAt >= readEveryMs) {
        readAt = now
        // The uptime is truncated to 10 ms, so the greatest difference is the most exact; a suspended machine increases
        // it.
        ahead = Math.max(ahead, uptime() * 1_000 - now)
      }
      return now + ahead
    },
  }
}
