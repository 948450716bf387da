/**
 * Sums of other gateways that the store lacks, as last read: those gateways may have ended, and then can't write them
 * again.
 */

import type { ExactInt } from '../../formats/exact.ts'
import type { OtherSums } from '../rules/other-sums.ts'
import type { Tally } from '../rules/tally.ts'

type MissingSum = readonly [tally: Tally, name: string, sum: ExactInt]

/** For one hash tag. */
export function createMissingSums() {
  const lacking = new Map<Tally, OtherSums>()

  return {
    /** Number of windows with missing sums. */
    get size(): number {
      return lacking.size
    },
    set(tally: Tally, fields: OtherSums): void {
      lacking.set(tally, fields)
    },
    /** The next missing sums of open windows, at most this many. */
    next(most: number, isOpen: (tally: Tally) => boolean): readonly MissingSum[] {
      const next: MissingSum[] = []
      for (const [tally, fields] of lacking) {
        if (next.length >= most) break
        if (!isOpen(tally)) lacking.delete(tally)
        else for (const [name, sum] of fields) next.push([tally, name, sum])
      }
      return next.slice(0, most)
    },
    /** Call it when the store has these sums. */
    forget(sent: readonly MissingSum[]): void {
      for (const [tally, name] of sent) {
        const left = new Map(lacking.get(tally))
        left.delete(name)
        if (left.size === 0) lacking.delete(tally)
        else lacking.set(tally, left)
      }
    },
  }
}
