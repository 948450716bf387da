/**
 * Archives the files of a usage journal once they are complete and in the ledger. The database records the last
 * archive; if a process is killed before that, the next one continues.
 */

import { join } from 'node:path'
import { dayMs } from '../../formats/time.ts'
import { fileHeadOf, headFromLedger, readFileStart } from '../../journal/file-head.ts'
import type { JournalFolder, ListedFile, OpenFile } from '../../journal/journal-folder.ts'
import { parseJournalLine } from '../../journal/journal-line.ts'
import type { ArchiveHead, ArchiveHeads } from '../store.ts'
import {
  inspectArchive,
  listArchives,
  maxLineBytes,
  removeArchiveDrafts,
  writeArchive,
} from './archive-file.ts'
import { bytesOf, type JournalFile, listJournalFiles, type SourceNames } from './journal-files.ts'

interface ArchiveOptions {
  /** The folder that the gateway shares with the service. */
  readonly folder: Pick<JournalFolder, 'list' | 'open' | 'touchedAt'>
  readonly names: SourceNames
  readonly journal: string
  /** The folder with the archives of all journals, in a folder each. */
  readonly archives: string
  readonly heads: ArchiveHeads
  /** Whether the whole file is in the ledger. */
  readonly isDone: (file: ListedFile) => boolean
}

/** Maximum number of files whose archived offsets are stored. */
const maxPlaces = 128

/** Calls of `step` must not overlap within a process; other processes may archive at the same time. */
export function createJournalArchiver(options: ArchiveOptions) {
  const { folder, names, journal, archives, heads, isDone } = options
  const own = join(archives, journal)
  /** Archived bytes by inode. */
  let archived = new Map<string, number>()

  async function archiveFile(listed: JournalFile, file: OpenFile): Promise<void> {
    const head = fileHeadOf(readFileStart(file))
    for (;;) {
      const last = await heads.open(journal)
      const from = last.places.find((place) => headFromLedger(place.head) === head)?.offset ?? 0
      // A file that is too short for a head has no line.
      if (head === '' || from >= listed.size) break
      const written = await find(last.piece + 1)
      if (written === undefined) {
        const header = {
          journal,
          piece: last.piece + 1,
          day: dayOf(listed, file, from),
          head,
          from,
          bytes: listed.size - from,
          before: last.hash,
        }
        await writeArchive(own, listed.source, header, bytesOf(file, from, listed.size))
      } else await heads.move(journal, await stateAfter(last, written))
    }
    archived.set(listed.inode, listed.size)
  }

  async function find(piece: number): Promise<string | undefined> {
    return (await listArchives(own)).find((each) => each.piece === piece)?.path
  }

  /** Returns the state after an existing archive, which was written just now or by a process that was killed. */
  async function stateAfter(last: ArchiveHead, written: string): Promise<ArchiveHead> {
    const { header, hash } = await inspectArchive(written)
    const { piece, head, from, bytes, before } = header
    if (header.journal !== journal || piece !== last.piece + 1 || before !== last.hash) {
      throw new Error(`${written} does not follow the archive before it; move it away`)
    }
    const others = last.places.filter(
      (place) => headFromLedger(place.head) !== headFromLedger(head),
    )
    return { piece, hash, places: [...others, { head, offset: from + bytes }].slice(-maxPlaces) }
  }

  /** The day of the first line in these bytes; the same for every process that reads them. */
  function dayOf({ name }: JournalFile, file: OpenFile, from: number): string {
    const bytes = Buffer.allocUnsafe(maxLineBytes)
    const text = bytes.toString('utf8', 0, file.read(bytes, from))
    const writtenAt = folder.touchedAt(name) ?? 0
    const lines = text.split('\n')
    const [first] = lines.flatMap((line) => parseJournalLine(line)?.usage.response.endedAt ?? [])
    const day = new Date(Math.min(first ?? writtenAt, writtenAt + dayMs))
    return day.toISOString().slice(0, 10)
  }

  return {
    /** Archives complete files, oldest first; `closes`: current ones, too. */
    async step(closes = false): Promise<void> {
      const files = listJournalFiles(folder, names)
      const there = new Set(files.map(({ inode }) => inode))
      archived = new Map([...archived].filter(([inode]) => there.has(inode)))
      for (const listed of files) {
        const isDue = (closes || !listed.isCurrent) && isDone(listed)
        if (!isDue || this.isDone(listed)) continue
        const file = folder.open(listed.name)
        try {
          // Skipped if it was renamed or removed meanwhile.
          if (file?.inode === listed.inode) await archiveFile(listed, file)
        } finally {
          file?.close()
        }
        await removeArchiveDrafts(own)
      }
    },
    /** Whether the whole file is archived. */
    isDone: ({ inode, size }: Pick<ListedFile, 'inode' | 'size'>): boolean =>
      (archived.get(inode) ?? 0) >= size,
  }
}
