/** Tracks how far each file of a journal was read, and which files are gone. */

import type { Followed } from '../../journal/followed-files.ts'
import type { Position } from '../../journal/follower.ts'
import { headFromLedger } from '../../journal/head.ts'
import type { LedgerPlace } from '../store.ts'

/** The state of a file besides its position. */
export interface Place {
  /** End of its last response, in milliseconds since the epoch, or null if it has none. */
  endedAt: number | null
  /** Whether it is complete and was read to its end. */
  done: boolean
  /** The start of a gap, from an unreadable part to the next line that can be read. */
  gapFrom: number | undefined
}

/** A missing file is waited for this long, because it may be moving. */
const movedForMs = 10_000

/** `stored`: the places in the ledger. */
export function createPlaces(stored: readonly LedgerPlace[]) {
  /** By head, like the position. */
  const all = new Map<string, Place>()
  const position: Position = new Map()
  /** When a file was first missing, in monotonic time, by head. */
  const missingSince = new Map<string, number>()
  for (const { head: known, offset, endedAt, done } of stored) {
    const head = headFromLedger(known)
    all.set(head, { endedAt, done, gapFrom: undefined })
    position.set(head, offset)
  }

  /** Forgets the file if it has been missing for long; returns whether it has. */
  function isGone(head: string, now: number): boolean {
    const since = missingSince.get(head) ?? now
    missingSince.set(head, since)
    if (now - since <= movedForMs) return false
    missingSince.delete(head)
    all.delete(head)
    position.delete(head)
    return true
  }

  return {
    all: (): Iterable<Place> => all.values(),
    /** Live: a follower advances it. */
    position,
    of(head: string): Place {
      const known = all.get(head)
      if (known !== undefined) return known
      const place = { endedAt: null, done: false, gapFrom: undefined }
      all.set(head, place)
      return place
    },
    /** Notes which of the present files are complete; returns whether that has changed. */
    noteComplete(present: readonly Readonly<Followed>[]): boolean {
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
    /** Forgets files that are gone for good, and returns them. `now`: a monotonic clock. */
    forgetGone(present: readonly Readonly<Followed>[], now: number): readonly Place[] {
      const heads = new Set(present.map(({ head }) => head))
      const absent = [...all].filter(([head]) => !heads.has(head))
      return absent.flatMap(([head, place]) => (isGone(head, now) ? place : []))
    },
    /** The places in the form that the ledger stores. */
    toStored: (): readonly LedgerPlace[] =>
      [...all].map(([head, { endedAt, done }]) => {
        return { head, offset: position.get(head) ?? 0, endedAt, done }
      }),
  }
}
