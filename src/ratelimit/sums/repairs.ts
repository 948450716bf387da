/** What a store lacks of others' sums, as they were read: others may have ended, and can't write them again. */

import type { Exact } from '../../formats/exact.ts'
import type { Fields } from '../rules/fields.ts'
import type { Tally } from '../rules/tally.ts'

type Repair = readonly [tally: Tally, name: string, sum: Exact]

/** Of one hash tag. */
export function createRepairs() {
  const lacking = new Map<Tally, Fields>()

  return {
    /** Windows of which something is lacking. */
    get size(): number {
      return lacking.size
    },
    set(tally: Tally, fields: Fields): void {
      lacking.set(tally, fields)
    },
    /** The next ones of windows that are open, at most this many. */
    next(most: number, isOpen: (tally: Tally) => boolean): readonly Repair[] {
      const next: Repair[] = []
      for (const [tally, fields] of lacking) {
        if (next.length >= most) break
        if (!isOpen(tally)) lacking.delete(tally)
        else for (const [name, sum] of fields) next.push([tally, name, sum])
      }
      return next.slice(0, most)
    },
    /** The store has these. */
    forget(sent: readonly Repair[]): void {
      for (const [tally, name] of sent) {
        const left = new Map(lacking.get(tally))
        left.delete(name)
        if (left.size === 0) lacking.delete(tally)
        else lacking.set(tally, left)
      }
    },
  }
}
