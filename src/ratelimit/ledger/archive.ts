/**
 * Archives what a usage journal has told the ledger: its files, when they are complete. Which archive is
 * the last is in the database; a process that was killed before it said so is continued by the next.
 */

import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { ArchiveHead, ArchiveHeads } from '../../store/usage.ts'
import { readHead } from '../journal/file.ts'
import { type ListedFile, listJournal } from '../journal/folder.ts'
import { readLine } from '../journal/line.ts'
import { maxLineBytes } from '../journal/lines.ts'
import { inspectArchive, listArchives, removeDrafts, writeArchive } from './archive-file.ts'

export interface ArchiveOptions {
  /** The file that Envoy writes. */
  readonly path: string
  readonly journal: string
  /** Where archives of all journals are, a folder each. */
  readonly folder: string
  readonly heads: ArchiveHeads
  /** Whether the ledger has everything in a file. */
  readonly isDone: (file: ListedFile) => boolean
}

/** The most files whose places are kept. */
const maxPlaces = 128
const dayMs = 86_400_000

/** Calls of `step` must not overlap; other processes do no harm. */
export function createArchive({ path, journal, folder, heads, isDone }: ArchiveOptions) {
  const own = join(folder, journal)
  /** Archived bytes by inode. */
  const archived = new Map<string, number>()

  async function add(file: ListedFile, handle: FileHandle): Promise<void> {
    for (;;) {
      const last = await heads.open(journal)
      const isKnown = (first: string) => last.places.some((place) => place.head === first)
      const head = await readHead(handle, isKnown)
      const from = last.places.find((place) => place.head === head)?.offset ?? 0
      // A file that is too short for a head has no line.
      if (head === '' || from >= file.size) break
      const written = await find(last.piece + 1)
      if (written === undefined) {
        const part = { start: from, end: file.size - 1, autoClose: false }
        const day = await dayOf(handle, file, from)
        const header = { journal, piece: last.piece + 1, day, head, from, before: last.hash }
        const whole = { ...header, bytes: file.size - from }
        await writeArchive(own, whole, handle.createReadStream(part))
      } else await heads.move(journal, await follow(last, written))
    }
    archived.set(file.inode, file.size)
  }

  async function find(piece: number): Promise<string | undefined> {
    return (await listArchives(own)).find((each) => each.piece === piece)?.path
  }

  /** The head with an archive that is there: written just now, or by a process that was killed. */
  async function follow(last: ArchiveHead, written: string): Promise<ArchiveHead> {
    const { header, hash } = await inspectArchive(written)
    const { piece, head, from, bytes, before } = header
    if (header.journal !== journal || piece !== last.piece + 1 || before !== last.hash) {
      throw new Error(`${written} does not follow the archive before it; move it away`)
    }
    const others = last.places.filter((place) => place.head !== head)
    return { piece, hash, places: [...others, { head, offset: from + bytes }].slice(-maxPlaces) }
  }

  return {
    /** Archives complete files, oldest first; `closes`: also the one that Envoy writes. */
    async step(closes = false): Promise<void> {
      const files = await listJournal(path)
      for (const file of files) {
        const isDue = (closes || file.path !== path) && isDone(file)
        if (!isDue || this.isDone(file)) continue
        const handle = await open(file.path, 'r').catch(() => undefined)
        try {
          const stat = await handle?.stat({ bigint: true })
          // Not if it was renamed or removed meanwhile.
          if (handle !== undefined && String(stat?.ino) === file.inode) await add(file, handle)
        } finally {
          await handle?.close()
        }
        await removeDrafts(own)
      }
    },
    /** Whether the whole file is archived. */
    isDone: ({ inode, size }: ListedFile): boolean => (archived.get(inode) ?? -1) >= size,
  }
}

/** When the first response of these bytes ended; the same for every process that reads them. */
async function dayOf(handle: FileHandle, { writtenAt }: ListedFile, start: number) {
  const { buffer, bytesRead } = await handle.read(
    Buffer.alloc(maxLineBytes),
    0,
    maxLineBytes,
    start,
  )
  const lines = buffer.toString('utf8', 0, bytesRead).split('\n')
  const [first] = lines.flatMap((line) => readLine(line).usages)
  const day = new Date(Math.min(first?.response.endedAt ?? writtenAt, writtenAt + dayMs))
  return day.toISOString().slice(0, 10)
}
