/**
 * Watches the file that Envoy writes. Every cause that keeps Envoy from writing to it (the file was
 * removed or replaced, the disk is full, the log is not configured) shows in one of two ways: the
 * file is missing, or it does not change although the stream reports responses.
 */

import { stat } from 'node:fs/promises'
import { listJournal } from './folder.ts'
import type { Reopening } from './reopening.ts'

export type JournalProblem = 'missing' | 'stuck'

export interface JournalWatchOptions {
  /** The file that Envoy writes. */
  readonly path: string
  /** Makes Envoy reopen the file, which also makes it flush. */
  readonly reopen: Reopening
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** Called at each change; undefined when the problem is over. */
  readonly onChange: (problem: JournalProblem | undefined) => void
  /** Called when the file has left its folder, even if another one has replaced it. */
  readonly onRemoved: () => void
}

/**
 * A response's line should be written this long after it; then Envoy is made to flush, whatever its
 * interval.
 */
const askAfterMs = 2_500
const stuckAfterMs = 3_500
/** A line may be written this long before the stream reports its response. */
const streamLagMs = 500
/** Checks of a renamed file without a successor before it counts as missing. */
const renamedLooks = 4

/** Watches from the first call of `look`; calls must not overlap. */
export function createJournalWatch(options: JournalWatchOptions) {
  const { path, reopen, monotonic } = options
  let problem: JournalProblem | undefined
  let inode: string | undefined
  let signature = ''
  let changedAt = Number.NEGATIVE_INFINITY
  let missingLooks = 0
  /** When the stream reported the first response that the file may lack. */
  let reportedAt: number | undefined

  function become(now: JournalProblem | undefined): void {
    if (now !== problem) options.onChange(now)
    problem = now
  }

  /** Whether the file last seen here now has another of the journal's names. */
  async function isRenamed(): Promise<boolean> {
    const files = await listJournal(path)
    return files.some((file) => file.inode === inode)
  }

  async function noteMissing(): Promise<void> {
    // If Envoy has not started yet, nothing is missing.
    if (inode === undefined && reportedAt === undefined) return
    missingLooks += 1
    if (missingLooks === 1 && inode !== undefined && !(await isRenamed())) {
      options.onRemoved()
      missingLooks = renamedLooks
    }
    if (missingLooks >= renamedLooks) become('missing')
    await reopen()
  }

  async function noteThere(found: { ino: bigint; size: bigint; mtimeNs: bigint }): Promise<void> {
    const own = String(found.ino)
    if (missingLooks === 0 && inode !== undefined && inode !== own && !(await isRenamed())) {
      options.onRemoved()
    }
    missingLooks = 0
    inode = own
    const now = `${own} ${found.size} ${found.mtimeNs}`
    if (now !== signature) {
      signature = now
      changedAt = monotonic()
      reportedAt = undefined
      become(undefined)
      return
    }
    if (problem === 'missing') become(undefined)
    if (reportedAt === undefined) return
    const waitedMs = monotonic() - reportedAt
    if (waitedMs >= stuckAfterMs) become('stuck')
    if (waitedMs >= askAfterMs) await reopen()
  }

  return {
    /** undefined if there is no problem. */
    get problem(): JournalProblem | undefined {
      return problem
    },
    /** The stream has reported a response for which Envoy writes a line. */
    noteReported(): void {
      if (monotonic() - changedAt >= streamLagMs) reportedAt ??= monotonic()
    },
    /** Checks the file; call it twice a second. */
    async look(): Promise<void> {
      const found = await stat(path, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined
        throw error
      })
      if (found === undefined) await noteMissing()
      else await noteThere(found)
    },
  }
}
