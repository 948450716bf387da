/**
 * Detects missing lines. Every admitted request has a line when it ends, and one every ten seconds while it runs; if
 * none arrives, responses end without a line.
 */

interface LineGuardOptions {
  /** Milliseconds within which a line must arrive; may change with Envoy's flush interval. */
  readonly withinMs: () => number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** Called once for each change. */
  readonly onChange: (isFailing: boolean) => void
}

/** Milliseconds that the decision on a request allowed on trial may take. */
const trialMs = 50

export function createMissingLineDetector({ withinMs, monotonic, onChange }: LineGuardOptions) {
  /** Number of requests that were allowed after the last line and are not known to lack one. */
  let waiting = 0
  /** When the first of them was allowed. */
  let waitingSince: number | undefined
  /** Whether lines are overdue. */
  let isFailing = false
  let triedAt = Number.NEGATIVE_INFINITY

  return {
    /** Reports an allowed request that will have a line. */
    noteAllowed(): void {
      waiting += 1
      waitingSince ??= monotonic()
    },
    /** Reports that such a request has no line after all: the gateway has not read the decision. */
    noteLeft(): void {
      if (waiting === 0) return
      waiting -= 1
      if (waiting === 0) waitingSince = undefined
    },
    noteLine(): void {
      waiting = 0
      waitingSince = undefined
      if (!isFailing) return
      isFailing = false
      onChange(false)
    },
    /**
     * Whether a request may be allowed on trial although lines are overdue: only an allowed request produces a line.
     * Repeated, because a client that left before the decision produces none.
     */
    mayTry(): boolean {
      const sinceMs = monotonic() - triedAt
      if (sinceMs < trialMs) return true
      if (sinceMs < withinMs()) return false
      triedAt = monotonic()
      return true
    },
    /** Call it every second, after the lines were read. */
    poll(): void {
      if (isFailing || waitingSince === undefined) return
      if (monotonic() - waitingSince < withinMs()) return
      isFailing = true
      triedAt = monotonic() - trialMs
      onChange(true)
    },
  }
}
