/** The clocks that the gateway's scripts read, as far as this process can. */

import { uptime } from 'node:os'

export interface TableClocks {
  /** Milliseconds since the epoch. */
  real(): number
  /** Of CLOCK_BOOTTIME, in milliseconds; at most a hundredth of a second behind it. */
  boot(): number
}

const readEveryMs = 100

/** Node has no clock that runs while the machine is suspended, but the system says how long it has been up. */
export function systemClocks(): TableClocks {
  let ahead = Number.NEGATIVE_INFINITY
  let readAt = Number.NEGATIVE_INFINITY
  return {
    real: () => Date.now(),
    boot() {
      const now = performance.now()
      if (now - readAt >= readEveryMs) {
        readAt = now
        // It is cut to hundredths, so the highest difference is the nearest; a suspended machine makes it higher.
        ahead = Math.max(ahead, uptime() * 1_000 - now)
      }
      return now + ahead
    },
  }
}
