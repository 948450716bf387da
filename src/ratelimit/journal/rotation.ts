/** Keeps a usage journal small: renames the file once it is long, removes what has been read. */

import { isRotated, type ListedFile, listJournal, remove, rotate } from './folder.ts'

export interface JournalRotationOptions {
  /** The file that Envoy writes. */
  readonly path: string
  /** Bytes from which on it is renamed. */
  readonly rotateBytes: number
  /** Has Envoy open the file anew (`/reopen_logs` of its admin page). */
  readonly reopen: () => Promise<void>
  /** Whether this process reads the journal. Others leave the work to it, while it does it. */
  readonly isReader: () => boolean
  /** Whether all that is in the file has been counted for good. */
  readonly isDone: (file: ListedFile) => boolean
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Told once for each change of what Envoy's admin page answers to. */
  readonly onReopen: (failure: unknown) => void
  /** Told of a file that had to be removed though it was not read. */
  readonly onLoss: (path: string) => void
}

/** Renamed files that stay though they were read: counters in memory begin with them. */
const keptFiles = 4
/** Renamed files that there may be before the oldest goes unread. */
const mostFiles = 60
const patience = 1.25
const reopenEveryMs = 2_000

/**
 * What is to be done about every second; each call does what there is to do by now. Two processes
 * at it do no harm.
 */
export function createJournalRotation(options: JournalRotationOptions): () => Promise<void> {
  const { path, clock, isReader, isDone } = options
  let reopenedAt = Number.NEGATIVE_INFINITY
  let failing = false

  async function reopen(): Promise<void> {
    if (Math.abs(clock() - reopenedAt) < reopenEveryMs) return
    reopenedAt = clock()
    const failure = await options.reopen().then(
      () => undefined,
      (error: unknown) => error,
    )
    if ((failure !== undefined) !== failing) options.onReopen(failure)
    failing = failure !== undefined
  }

  return async function tidy() {
    const files = await listJournal(path)
    const current = files.find((file) => file.path === path)
    const others = files.filter((file) => file !== current)
    const longEnough = options.rotateBytes * (isReader() ? 1 : patience)
    if (current !== undefined && current.size >= longEnough) {
      await rotate(current, clock())
      reopenedAt = Number.NEGATIVE_INFINITY
      await reopen()
    } else if (current === undefined && others.length > 0) {
      // Envoy has not heard of the new name yet, or is away: it opens the file when it is back.
      await reopen()
    }
    const ours = others.filter((file) => isRotated(file, path))
    for (const [i, file] of ours.entries()) {
      const newer = ours.length - 1 - i
      if (newer >= keptFiles && isReader() && isDone(file)) await remove(file)
      else if (newer >= mostFiles) {
        await remove(file)
        options.onLoss(file.path)
      }
    }
  }
}
