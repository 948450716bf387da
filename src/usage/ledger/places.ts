/** Tracks how far each file of a journal was read, and which files are gone. */

import { getOrAdd } from '../../formats/lists.ts'
import { headFromLedger } from '../../journal/file-head.ts'
import type { FollowedFile } from '../../journal/followed-files.ts'
import type { JournalPosition } from '../../journal/follower.ts'
import type { LedgerPlace } from '../store.ts'

/** The state of a file besides its position. */
export interface FilePlace {
  /** End of its last response, in milliseconds since the epoch, or null if it has none. */
  endedAt: number | null
  /** Whether no line of it is missing in the ledger, or that is recorded as a gap. */
  done: boolean
  /** The start of a gap, from an unreadable part to the next line that can be read. */
  gapFrom: number | undefined
  /** Whether its lines were added before its place was forgotten: a backup has brought it back. */
  readonly isReadBefore?: boolean
}

/** A missing file is waited for this long, because it may be moving. */
const movedForMs = 10_000
/** Maximum number of places retained for missing files, in case one is restored: its lines must not be added again. */
const maxAbsent = 32

/** `stored`: the places in the ledger. `clock`: milliseconds since the epoch. */
export function createFilePlaces(stored: readonly LedgerPlace[], clock: () => number) {
  /** By head, like the position. */
  const all = new Map<string, FilePlace>()
  const position: JournalPosition = new Map()
  /** When a file was first missing, in monotonic time, by head. */
  const missingSince = new Map<string, number>()
  /** The heads of an earlier version, which knows no others and would add these files again, by our head. */
  const earlierHeads = new Map<string, string>()
  for (const { head: known, offset, endedAt, done } of stored) {
    const head = headFromLedger(known)
    if (known !== head) earlierHeads.set(head, known)
    if (offset < (position.get(head) ?? 0)) continue
    all.set(head, { endedAt, done, gapFrom: undefined })
    position.set(head, offset)
  }

  /** Whether the file has been missing for long. */
  function isGone(head: string, now: number): boolean {
    return now - getOrAdd(missingSince, head, () => now) > movedForMs
  }

  /** Places of files that were rotated before this time may have been forgotten. */
  function forgottenBefore(): number {
    const ends = [...all.values()].flatMap(({ endedAt, done }) => (done && endedAt) || [])
    const first = Math.min(...ends)
    // The clock was set back: what was rotated before that time may be new.
    return ends.length < maxAbsent || first > clock() ? Number.NEGATIVE_INFINITY : first
  }

  function forget(head: string): void {
    missingSince.delete(head)
    all.delete(head)
    position.delete(head)
  }

  return {
    all: (): Iterable<FilePlace> => all.values(),
    /** Live: a follower advances it. */
    position,
    /** `rotatedAt`: returns when its file was rotated, in milliseconds since the epoch, if it is not current. */
    of(head: string, rotatedAt: () => number | undefined): FilePlace {
      return getOrAdd(all, head, () => {
        const isReadBefore = (rotatedAt() ?? Number.POSITIVE_INFINITY) < forgottenBefore()
        return { endedAt: null, done: false, gapFrom: undefined, isReadBefore }
      })
    },
    /** Notes which of the present files are complete; returns whether that has changed. */
    noteComplete(present: readonly Readonly<FollowedFile>[]): boolean {
      let isChanged = false
      for (const { head, isCurrent, isRead } of present) {
        missingSince.delete(head)
        const place = all.get(head)
        const done = isRead && !isCurrent
        if (place === undefined || place.done === done) continue
        place.done = done
        isChanged = true
      }
      return isChanged
    },
    /**
     * Returns the files that are gone before they were read to their end, each once. Their places are retained, as those
     * of other missing files. `now`: a monotonic clock.
     */
    findGone(
      present: readonly Readonly<FollowedFile>[],
      now: number,
    ): readonly Readonly<FilePlace>[] {
      const heads = new Set(present.map(({ head }) => head))
      const absent = [...all].filter(([head]) => !heads.has(head))
      for (const [head] of absent.slice(0, -maxAbsent)) forget(head)
      const gone = absent.filter(([head, { done }]) => !done && isGone(head, now))
      return gone.map(([, place]) => {
        place.done = true
        return place
      })
    },
    /** The places in the form that the ledger stores. */
    toStored: (): readonly LedgerPlace[] =>
      [...all].map(([head, { endedAt, done }]) => {
        const offset = position.get(head) ?? 0
        return { head: earlierHeads.get(head) ?? head, offset, endedAt, done }
      }),
  }
}
