/** Keeps a usage journal small: renames the file once it is long, removes what has been read. */

import { isRotated, type ListedFile, listJournal, remove, rotate } from './folder.ts'
import type { Reopening } from './reopening.ts'

export interface JournalRotationOptions {
  /** The file that Envoy writes. */
  readonly path: string
  /** Bytes from which on it is renamed. */
  readonly rotateBytes: number
  /** Has Envoy open the file anew. */
  readonly reopen: Reopening
  /** Whether this process reads the journal. Others leave the work to it, while it does it. */
  readonly isReader: () => boolean
  /** Whether all that is in the file has been counted for good. */
  readonly isDone: (file: ListedFile) => boolean
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Told of a file that had to be removed though it was not read. */
  readonly onLoss: (path: string) => void
}

/** Renamed files that stay though they were read: counters in memory begin with them. */
const keptFiles = 4
/** Renamed files that there may be before the oldest goes unread. */
const mostFiles = 60
const patience = 1.25

/**
 * What is to be done about every second; each call does what there is to do by now. Two processes
 * at it do no harm.
 */
export function createJournalRotation(options: JournalRotationOptions): () => Promise<void> {
  const { path, clock, isReader, isDone, reopen } = options

  return async function tidy() {
    const files = await listJournal(path)
    const current = files.find((file) => file.path === path)
    const others = files.filter((file) => file !== current)
    const longEnough = options.rotateBytes * (isReader() ? 1 : patience)
    if (current !== undefined && current.size >= longEnough) {
      rotate(current, clock())
      await reopen(true)
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
