/**
 * Whether the lines of a gateway come: every admitted request has one when it ends, and one each ten
 * seconds while it runs. If none comes, responses end without a line.
 */

interface LineGuardOptions {
  /** Longer than the gateway needs for a line, in milliseconds, as it is now. */
  readonly withinMs: () => number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** Called once for each change. */
  readonly onChange: (isFailing: boolean) => void
}

/** How long the decision on a request that is allowed on trial may take. */
const trialMs = 50

export function createLineGuard({ withinMs, monotonic, onChange }: LineGuardOptions) {
  /** When a request was first allowed after the last line. */
  let waitingSince: number | undefined
  let isFailing = false
  let triedAt = Number.NEGATIVE_INFINITY

  return {
    /** Whether lines that are due do not come. */
    get isFailing(): boolean {
      return isFailing
    },
    /** A request was allowed that has a line. */
    noteAllowed(): void {
      waitingSince ??= monotonic()
    },
    noteLine(): void {
      waitingSince = undefined
      if (!isFailing) return
      isFailing = false
      onChange(false)
    },
    /**
     * Whether one may be allowed all the same: only a request that is allowed brings a line, and one whose client
     * left before it was decided brings none.
     */
    mayTry(): boolean {
      const sinceMs = monotonic() - triedAt
      if (sinceMs < trialMs) return true
      if (sinceMs < withinMs()) return false
      triedAt = monotonic()
      return true
    },
    /** To be called each second, after the lines were read. */
    poll(): void {
      if (isFailing || waitingSince === undefined) return
      if (monotonic() - waitingSince < withinMs()) return
      isFailing = true
      triedAt = monotonic() - trialMs
      onChange(true)
    },
  }
}
