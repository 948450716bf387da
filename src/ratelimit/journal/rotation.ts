/**
 * Keeps a usage journal small: renames the file when it is long, and removes files that have been
 * read.
 */

import { isRotated, type ListedFile, listJournal, remove, rotate } from './folder.ts'
import type { Reopening } from './reopening.ts'

export interface JournalRotationOptions {
  /** The file that Envoy writes. */
  readonly path: string
  /** Size in bytes at which it is renamed. */
  readonly rotateBytes: number
  /** Whether it is also renamed at the end of a day (UTC) that this process sees. */
  readonly daily: boolean
  /** Makes Envoy reopen the file. */
  readonly reopen: Reopening
  /** Whether this process reads the journal. Other processes then leave this work to it. */
  readonly isReader: () => boolean
  /** Whether everything in the file is stored by the counters. */
  readonly isDone: (file: ListedFile) => boolean
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Called for a file that was removed although it had not been read. */
  readonly onLoss: (path: string) => void
}

/** Renamed files that are kept after they were read: counters in memory start with them. */
const keptFiles = 4
/** The most renamed files; beyond it the oldest is removed unread. */
const maxFiles = 60
/** How much larger a file may grow before another process than the reader rotates it. */
const standbyFactor = 1.25
const dayMs = 86_400_000

/** Call it about once a second; each call does whatever is due. Concurrent processes do no harm. */
export function createJournalRotation(options: JournalRotationOptions): () => Promise<void> {
  const { path, clock, isReader, isDone, reopen } = options

  let day = Math.floor(clock() / dayMs)

  return async function tidy() {
    const files = await listJournal(path)
    const current = files.find((file) => file.path === path)
    const others = files.filter((file) => file !== current)
    const rotateBytes = options.rotateBytes * (isReader() ? 1 : standbyFactor)
    const today = Math.floor(clock() / dayMs)
    const isNewDay = options.daily && today !== day && isReader() && (current?.size ?? 0) > 0
    day = today
    if (current !== undefined && (isNewDay || current.size >= rotateBytes)) {
      rotate(current, clock())
      await reopen(true)
    } else if (current === undefined && others.length > 0) {
      // Envoy has not reopened the file yet, or is down; it opens it at its start.
      await reopen()
    }
    const ours = others.filter((file) => isRotated(file, path))
    for (const [i, file] of ours.entries()) {
      const newer = ours.length - 1 - i
      if (newer >= keptFiles && isReader() && isDone(file)) await remove(file)
      else if (newer >= maxFiles) {
        await remove(file)
        options.onLoss(file.path)
      }
    }
  }
}
