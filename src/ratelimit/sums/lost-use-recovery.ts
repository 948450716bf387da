/**
 * If the store has a higher sum of this gateway than the lines that the gateway has read, the gateway's disk has lost
 * lines. The difference then counts as the gateway's own use, so that limits do not forget it.
 */

import { addExact, type ExactInt, maxExact, subtractExact } from '../../formats/exact.ts'
import { ownUseOf, type Tally } from '../rules/tally.ts'

interface LostUseRecoveryOptions {
  /** Reads a bounded number of bytes; returns whether all lines up to now are read. */
  readonly catchUp: () => boolean
  /** Reads all lines, however many. */
  readonly readToEnds: () => Promise<void>
  /** Whether this process is still the writer; only the writer recovers. */
  readonly isWriter: () => boolean
  /** Resolves once it is in the checkpoint on the disk. */
  readonly noteBase: (tally: Tally, base: ExactInt) => Promise<void>
  /** Sends the sum of the window with the next call. */
  readonly enqueue: (tally: Tally) => void
  /** Called when the disk has failed: the window is recovered after a later response of the store. */
  readonly onUnsaved: () => void
  readonly onFault: (error: unknown) => void
}

export function createLostUseRecovery(options: LostUseRecoveryOptions) {
  const { catchUp, readToEnds, isWriter, noteBase, enqueue, onUnsaved, onFault } = options
  const recovering = new Set<Tally>()

  /** Recorded before a sum that includes it is sent, so that a process finds it again after a kill. */
  async function keepBase(tally: Tally, base: ExactInt): Promise<void> {
    await noteBase(tally, base)
    tally.base = maxExact(tally.base, base)
    enqueue(tally)
  }

  return {
    get isPending(): boolean {
      return recovering.size > 0
    },
    recover(tally: Tally): void {
      if (recovering.has(tally)) return
      // Another process of this gateway may have read further, and whatever it has sent is in the files. The store's
      // response has no line that was written after it, so these lines are read in this turn, before there can be more.
      if (!catchUp()) {
        void readToEnds().then(() => enqueue(tally), onFault)
        return
      }
      const base = subtractExact(addExact(tally.base, tally.field), ownUseOf(tally))
      if (base <= tally.base || !isWriter()) return
      recovering.add(tally)
      void keepBase(tally, base)
        .catch(onUnsaved)
        .finally(() => recovering.delete(tally))
    },
  }
}
