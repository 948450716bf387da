/**
 * Whether this process is its gateway's writer. It confirms that before it does what only the writer may: another one may
 * have taken over while it hung.
 */

import { silentMs, type Writers } from '../../journal/writers.ts'

/** A writer that has not confirmed its role for this long confirms it before it delivers lines. */
const confirmAfterMs = silentMs / 2

/**
 * `monotonic`: a clock in milliseconds. `onEnd`: another process has taken over, or this one has left. `onBegin`: it has
 * become the writer; in the same turn in which `claim`'s preparation has ended.
 */
export function createWriterRole(
  writers: Writers,
  monotonic: () => number,
  { onBegin, onEnd }: { readonly onBegin: () => void; readonly onEnd: () => void },
) {
  let isWriter = false
  let isCandidate = false
  let confirmedAt = monotonic()

  function note(isLast: boolean): boolean {
    if (isWriter && !isLast) onEnd()
    isWriter = isLast
    return isWriter
  }

  /** Returns whether this process still is the writer; if it is not, its role ends. */
  function confirm(): boolean {
    confirmedAt = monotonic()
    return isWriter && note(writers.isLast())
  }

  /** Confirms the role, and shows other processes that the gateway has a writer. To be called every second. */
  function renew(): void {
    if (confirm() || isCandidate) writers.show()
  }

  return {
    get isWriter(): boolean {
      return isWriter
    },
    /** Whether this process, or another one, is the writer or becomes it. */
    isTaken: (): boolean => isWriter || isCandidate || !writers.isFree(),
    confirm,
    renew,
    renewIfDue(): void {
      if (monotonic() - confirmedAt >= confirmAfterMs) renew()
    },
    /** Becomes the writer once it is prepared, unless another process has taken over meanwhile; returns whether it has. */
    async claim(prepare: () => Promise<void>): Promise<boolean> {
      isCandidate = true
      try {
        writers.enter()
        await prepare()
        confirmedAt = monotonic()
        if (note(writers.isLast())) onBegin()
      } finally {
        isCandidate = false
      }
      return isWriter
    },
    /** Releases the role for another process. */
    leave(): void {
      note(false)
      writers.leave()
    },
  }
}
