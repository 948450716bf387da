/** Measures how far the ledger lags behind its journal. */

import { createJournalFollower } from '../../journal/follower.ts'
import { parseJournalLine } from '../../journal/journal-line.ts'
import type { LedgerState } from '../store.ts'
import { journalFoldersOf, positionOfPlaces, sourceNames } from './journal-files.ts'
import { findJournalName } from './journal-name.ts'
import type { KeptPlaces } from './ledger-lines.ts'

export type LedgerLag = ReturnType<typeof readLedgerLag>

/**
 * Measures the part of the journal at this path that the ledger has not added yet: bytes, and complete lines of
 * responses that it will add; zero if it does not know the journal.
 */
export function readLedgerLag(
  { path, dataDir }: Pick<KeptPlaces, 'path' | 'dataDir'>,
  journals: LedgerState['journals'],
) {
  let [bytes, lines] = [0, 0]
  const own = path && findJournalName(path, dataDir)
  const places = journals.find(({ journal }) => journal === own)?.places
  if (path === undefined || places === undefined) return { bytes, lines }
  const position = positionOfPlaces(places)
  /** Bytes after the last line end, by head: a line that is being written. */
  const unended = new Map<string, number>()
  for (const folder of journalFoldersOf(path, dataDir)) {
    const follower = createJournalFollower({
      folder,
      names: Object.values(sourceNames(path)),
      position,
      now: Date.now,
      onLine(line) {
        if (!isAdded(line)) return
        lines += 1
        bytes += Buffer.byteLength(line) + 1
      },
    })
    follower.catchUp(Number.POSITIVE_INFINITY)
    for (const { head, isCurrent, size } of follower.files()) {
      if (isCurrent) unended.set(head, size - (position.get(head) ?? 0))
    }
    follower.close()
  }
  for (const each of unended.values()) bytes += each
  return { bytes, lines }
}

/** Whether the ledger adds the line, or records it as lost. */
function isAdded(text: string): boolean {
  const line = parseJournalLine(text)
  return line === undefined || (line.isMetered && line.state === 'ended')
}
