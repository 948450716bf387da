/** Has Envoy open its journal anew, as often as that is wanted, and no more often than makes sense. */

export interface ReopeningOptions {
  /** Has Envoy open the file anew (`/reopen_logs` of its admin page). */
  readonly reopen: () => Promise<void>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Told once for each change of what Envoy's admin page answers to. */
  readonly onReopen: (failure: unknown) => void
}

/** Asks, unless it has just asked and is not told to `insist`. Settles when it is answered; never rejects. */
export type Reopening = (insist?: boolean) => Promise<void>

const everyMs = 2_000

/** One for all who want it. */
export function createReopening({ reopen, clock, onReopen }: ReopeningOptions): Reopening {
  let askedAt = Number.NEGATIVE_INFINITY
  let failing = false

  return async function ask(insist = false) {
    if (!insist && Math.abs(clock() - askedAt) < everyMs) return
    askedAt = clock()
    const failure = await reopen().then(
      () => undefined,
      (error: unknown) => error,
    )
    if ((failure !== undefined) !== failing) onReopen(failure)
    failing = failure !== undefined
  }
}
