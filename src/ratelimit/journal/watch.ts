/**
 * Watches over the file that Envoy writes. Whatever keeps it from writing there (the file was removed,
 * another one stands in its place, the disk is full, the log is not configured) shows in one of
 * two ways: the file is missing, or it does not change though the stream tells of answers.
 */

import { stat } from 'node:fs/promises'
import { listJournal } from './folder.ts'
import type { Reopening } from './reopening.ts'

export type JournalProblem = 'missing' | 'stuck'

export interface JournalWatchOptions {
  /** The file that Envoy writes. */
  readonly path: string
  /** Has Envoy open the file anew, which makes it write what it has, too. */
  readonly reopen: Reopening
  /** Milliseconds of a clock that never steps. */
  readonly monotonic: () => number
  /** Told of each change; undefined when all is well again. */
  readonly onChange: (problem: JournalProblem | undefined) => void
  /** Told that the file is gone from its folder, though another one may have taken its place. */
  readonly onRemoved: () => void
}

/** So long after an answer its line should be written; Envoy is asked to, whatever its interval. */
const askAfterMs = 2_500
const stuckAfterMs = 3_500
/** A line may be written by so much before the stream tells of it. */
const streamLagMs = 500
/** Looks at a file that was renamed and not begun anew, before it counts as missing. */
const renamedLooks = 4

/** Watches from the first call of `look` on; one call at a time. */
export function createJournalWatch(options: JournalWatchOptions) {
  const { path, reopen, monotonic } = options
  let problem: JournalProblem | undefined
  let inode: string | undefined
  let signature = ''
  let changedAt = Number.NEGATIVE_INFINITY
  let missingLooks = 0
  /** When the stream told of the first answer of which the file may not tell. */
  let toldAt: number | undefined

  function become(now: JournalProblem | undefined): void {
    if (now !== problem) options.onChange(now)
    problem = now
  }

  /** Whether the file that was last seen here is one of the journal's under another name. */
  async function isRenamed(): Promise<boolean> {
    const files = await listJournal(path)
    return files.some((file) => file.inode === inode)
  }

  async function noteMissing(): Promise<void> {
    // Where Envoy has not begun yet nothing is missed.
    if (inode === undefined && toldAt === undefined) return
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
      toldAt = undefined
      become(undefined)
      return
    }
    if (problem === 'missing') become(undefined)
    if (toldAt === undefined) return
    const waitedMs = monotonic() - toldAt
    if (waitedMs >= stuckAfterMs) become('stuck')
    if (waitedMs >= askAfterMs) await reopen()
  }

  return {
    /** undefined while nothing is wrong. */
    get problem(): JournalProblem | undefined {
      return problem
    },
    /** The stream has told of an answer that Envoy writes a line of. */
    told(): void {
      if (monotonic() - changedAt >= streamLagMs) toldAt ??= monotonic()
    },
    /** Looks at the file; meant to be called twice a second. */
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
