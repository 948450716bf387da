/**
 * Whether the lines of a gateway come: every admitted request that is counted has one when it ends, and one
 * each ten seconds while it runs. If none comes, responses end of which nobody knows.
 */

export interface LineGuardOptions {
  /** Longer than the gateway needs for a line, in milliseconds. */
  readonly withinMs: number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** Called once for each change. */
  readonly onChange: (isFailing: boolean) => void
}

export type LineGuard = ReturnType<typeof createLineGuard>

export function createLineGuard({ withinMs, monotonic, onChange }: LineGuardOptions) {
  /** When a request was first allowed after the last line. */
  let waitingSince: number | undefined
  let isFailing = false

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
    /** To be called each second, after the lines were read. */
    poll(): void {
      if (isFailing || waitingSince === undefined) return
      if (monotonic() - waitingSince < withinMs) return
      isFailing = true
      onChange(true)
    },
  }
}
