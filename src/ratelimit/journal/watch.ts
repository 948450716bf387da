/**
 * Watches the file that Envoy writes. A line that was written changes the file's size. Every cause
 * that keeps Envoy from writing shows in one of three ways:
 *
 * - The file is missing: it was removed or replaced.
 * - Its modification time moves and its size does not: writes fail, as on a full disk.
 * - Neither changes although the stream reports responses: the log is not configured, for example.
 *   Only a process that has one of Envoy's streams sees this. It touches the file, so that the
 *   others see the second sign.
 */

import { stat, utimes } from 'node:fs/promises'
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
const askAfterMs = 2_000
const stuckAfterMs = 3_000
/**
 * Changes of the modification time without a change of the size that prove that writes fail. One
 * proves nothing: the time may be set before the size, and network file systems set it again when
 * they write their cache back.
 */
const failedWrites = 2
/** A line may be written this long before the stream reports its response. */
const streamLagMs = 500
/** Checks of a renamed file without a successor before it counts as missing. */
const renamedPolls = 4

/** Watches from the first call of `poll`; calls must not overlap. */
export function createJournalWatch(options: JournalWatchOptions) {
  const { path, reopen, monotonic } = options
  let problem: JournalProblem | undefined
  let inode: string | undefined
  let written = ''
  let modifiedNs = 0n
  /** Changes of `modifiedNs` since the size changed. */
  let failures = 0
  let changedAt = Number.NEGATIVE_INFINITY
  let missingPolls = 0
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
    missingPolls += 1
    if (missingPolls === 1 && inode !== undefined && !(await isRenamed())) {
      options.onRemoved()
      missingPolls = renamedPolls
    }
    if (missingPolls >= renamedPolls) become('missing')
    await reopen()
  }

  async function noteThere(found: { ino: bigint; size: bigint; mtimeNs: bigint }): Promise<void> {
    const own = String(found.ino)
    if (missingPolls === 0 && inode !== undefined && inode !== own && !(await isRenamed())) {
      options.onRemoved()
    }
    missingPolls = 0
    inode = own
    const now = `${own} ${found.size}`
    const isModified = found.mtimeNs !== modifiedNs
    modifiedNs = found.mtimeNs
    if (now !== written) {
      written = now
      failures = 0
      changedAt = monotonic()
      reportedAt = undefined
      become(undefined)
      return
    }
    if (isModified) failures += 1
    if (problem === 'missing') become(undefined)
    const waitedMs = reportedAt === undefined ? 0 : monotonic() - reportedAt
    if (waitedMs >= stuckAfterMs) await touch()
    if (waitedMs >= stuckAfterMs || failures >= failedWrites) become('stuck')
    if (waitedMs >= askAfterMs || problem === 'stuck') await reopen()
  }

  /** Shows the other processes that the file should have grown. */
  async function touch(): Promise<void> {
    const now = new Date()
    await utimes(path, now, now).catch(() => {})
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
    async poll(): Promise<void> {
      const found = await stat(path, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined
        throw error
      })
      if (found === undefined) await noteMissing()
      else await noteThere(found)
    },
  }
}
