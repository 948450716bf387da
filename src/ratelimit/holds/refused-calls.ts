/**
 * Calls that Redis refuses although it is available: a script that fails, a right that is missing. The sums in the same
 * Redis may be fine, so nothing else reports them.
 */

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
  let refusedAt: number | undefined
  return {
    get isRefused(): boolean {
      return refusedAt !== undefined
    },
    /** Takes the error of each failed call. */
    note(error: unknown): void {
      if (!isReply(error) || outage.test(error.message)) return
      const isFirst = refusedAt === undefined
      refusedAt = monotonic()
      if (isFirst) onRefused(true, error)
    },
    /** Call it at intervals. */
    tend(): void {
      if (refusedAt === undefined || monotonic() - refusedAt < calmMs) return
      refusedAt = undefined
      onRefused(false)
    },
  }
}

/** Whether the server has responded with this error. */
function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}
