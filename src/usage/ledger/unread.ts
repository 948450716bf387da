/** How far the ledger lags behind its journal. */

import type { OpenFile } from '../../journal/folder.ts'
import { readLine } from '../../journal/read-line.ts'
import type { LedgerState } from '../store.ts'
import { bytesOf, findLineFiles, offsetsOf } from './journal-files.ts'
import { findJournalName } from './journal-name.ts'
import type { KeptPlaces } from './kept.ts'
import { lineEnd, linesOf } from './lines.ts'

/** What the ledger has not added of a journal yet. */
export interface Unread {
  readonly bytes: number
  /** Whole ones, of responses that it adds. */
  readonly lines: number
}

/**
 * What the ledger has not added yet of the journal at this path, so that nothing is known of it; nothing
 * if it does not know the journal.
 */
export async function countUnread(
  { path, dataDir }: Pick<KeptPlaces, 'path' | 'dataDir'>,
  journals: LedgerState['journals'],
): Promise<Unread> {
  let [bytes, lines] = [0, 0]
  const own = path && findJournalName(path, dataDir)
  const places = journals.find(({ journal }) => journal === own)?.places
  if (path === undefined || places === undefined) return { bytes, lines }
  const added = offsetsOf(places)
  for (const found of findLineFiles(path, dataDir)) {
    const { head, size, isCurrent } = found
    const offset = added.get(head) ?? 0
    // What is written meanwhile is not counted.
    const file = size > offset ? found.open() : undefined
    if (file === undefined) continue
    try {
      let some = 0
      for await (const line of linesOf(bytesOf(file, offset, size))) some += Number(isAdded(line))
      // Bytes without a line end are a line that is being written, unless nobody does any more.
      if (some === 0 && (!isCurrent || isEnded(file, size))) continue
      lines += some
      bytes += size - offset
    } finally {
      file.close()
    }
  }
  return { bytes, lines }
}

function isEnded(file: OpenFile, size: number): boolean {
  const last = Buffer.alloc(1)
  file.read(last, size - 1)
  return last[0] === lineEnd
}

/** Whether the ledger adds what a line says, or says that it is lost. */
function isAdded(text: string): boolean {
  if (text === '') return false
  const line = readLine(text)
  return line === undefined || (line.isMetered && line.state === 'ended')
}
