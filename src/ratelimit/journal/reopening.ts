/** Makes Envoy reopen its journal on request, but not more often than is useful. */

import { createOutage } from '../../runtime/outage.ts'

export interface ReopeningOptions {
  /** Makes Envoy reopen the file (`/reopen_logs` of its admin page). */
  readonly reopen: () => Promise<void>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Called once for each change in whether Envoy's admin page responds. */
  readonly onReopen: (failure: unknown) => void
}

/**
 * Requests it, unless a request was just made and `force` is not set. Resolves after the response;
 * never rejects.
 */
export type Reopening = (force?: boolean) => Promise<void>

const everyMs = 2_000

/** One instance is shared by all callers. */
export function createReopening({ reopen, clock, onReopen }: ReopeningOptions): Reopening {
  let askedAt = Number.NEGATIVE_INFINITY
  const outage = createOutage(onReopen)

  return async function ask(force = false) {
    if (!force && Math.abs(clock() - askedAt) < everyMs) return
    askedAt = clock()
    const failure = await reopen().then(
      () => undefined,
      (error: unknown) => error,
    )
    outage.note(failure)
  }
}
