/**
 * Tracks whether this process is its gateway's writer. It confirms that before actions that only the writer may take:
 * another process may have taken over while it hung.
 */

import { type WriterElection, writerSilenceMs } from '../../journal/writer-election.ts'

/** A writer that has not confirmed its role for this long confirms it before it delivers lines. */
const confirmAfterMs = writerSilenceMs / 2

/**
 * `monotonic`: a clock in milliseconds. `onEnd`: another process has taken over, or this one has left. `onBegin`: it
 * has become the writer; called in the turn in which `claim`'s preparation ended.
 */
export function createWriterRole(
  writers: WriterElection,
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

  /** Returns whether this process is still the writer; otherwise its role ends. */
  function confirm(): boolean {
    confirmedAt = monotonic()
    return isWriter && note(writers.isLast())
  }

  /** Confirms the role, and shows other processes that the gateway has a writer. Call it every second. */
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
    /** Prepares, then becomes the writer unless another process has taken over meanwhile; returns whether it has. */
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
