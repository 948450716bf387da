/**
 * Calls that Redis refuses although it is available: a script that fails, a right that is missing. The sums in the same
 * Redis may be fine, so nothing else reports them.
 */

import { createOutage } from '../../runtime/outage.ts'

/** A server that can serve nobody: the sums report it. */
const outage =
  /\b(LOADING|READONLY|MASTERDOWN|OOM|MISCONF|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|NOAUTH|NOSCRIPT)\b/
/** Without a refusal for this long, calls succeed again. Milliseconds. */
const calmMs = 60_000

export interface RefusalListener {
  /** Called when calls begin to be refused, with the first error, and once no call has been refused for a minute. */
  readonly onRefused?: (isRefused: boolean, cause?: unknown) => void
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
}

export function createRefusedCalls({
  onRefused = () => {},
  monotonic = () => performance.now(),
}: RefusalListener) {
  const refusal = createOutage<Error>((cause) => onRefused(cause !== undefined, cause))
  let refusedAt = Number.NEGATIVE_INFINITY
  return {
    get isRefused(): boolean {
      return refusal.isOpen
    },
    /** Takes the error of each failed call. */
    note(error: unknown): void {
      const isReply = error instanceof Error && error.name === 'ReplyError'
      if (!isReply || outage.test(error.message)) return
      refusedAt = monotonic()
      refusal.note(error)
    },
    /** Call it at intervals. */
    endIfQuiet(): void {
      if (monotonic() - refusedAt >= calmMs) refusal.note(undefined)
    },
  }
}
