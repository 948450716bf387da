/** The lines of a journal that a ledger has, from its archives and the files that are kept. */

import { type FileHandle, open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { errorMessage } from '../../runtime/error-message.ts'
import type { LedgerState } from '../../store/usage.ts'
import { readHead } from '../journal/file.ts'
import { listJournal } from '../journal/folder.ts'
import { linesOf } from '../journal/lines.ts'
import { findJournalName } from '../journal/name.ts'
import { type ListedArchive, listArchives, openArchive } from './archive-file.ts'

type Places = LedgerState['journals'][number]['places']

/** Bytes that were read already, by the head of their file. */
type ReadBytes = Map<string, number>

/** The lines of one journal that are in the ledger, in order, as far as they are kept. */
export interface KeptJournal {
  readonly journal: string
  readonly lines: AsyncIterable<string>
}

/** Where lines are kept: the journal at a path, and the archives of all journals in a folder. */
export interface KeptPlaces {
  readonly path: string | undefined
  readonly folder: string | undefined
}

/**
 * What is kept of each journal that the ledger knows, of this time (milliseconds since the epoch). Problems of
 * archives are named to `onProblem` as their lines are read.
 */
export async function findKept(
  { path, folder }: KeptPlaces,
  { journals, archives }: Pick<LedgerState, 'journals' | 'archives'>,
  { from, to }: { readonly from: number; readonly to: number },
  onProblem: (problem: string) => void,
): Promise<readonly KeptJournal[]> {
  const own = path && findJournalName(path)
  const kept: KeptJournal[] = []
  for (const { journal, places } of journals) {
    const all = folder === undefined ? [] : await listArchives(join(folder, journal))
    const some = archivesOf(all, from, to)
    const head = archives.find((each) => each.journal === journal)
    // Who vouches for the last of these: the archive after it, or the database for the last of all.
    const next = all[all.indexOf(some.at(-1) as ListedArchive) + 1]
    const last = folder !== undefined && next === undefined ? head : undefined
    if (some.length === 0 && journal !== own && !last?.piece) continue
    async function* lines() {
      const read: ReadBytes = new Map()
      yield* readArchives(some, { journal, next, last }, read, onProblem)
      if (path !== undefined && journal === own) yield* readFiles(path, places, read)
    }
    kept.push({ journal, lines: lines() })
  }
  return kept
}

/**
 * Lines of the files beside the journal at this path, oldest first, as far as they were added to the
 * ledger; without those that were read already.
 */
async function* readFiles(path: string, places: Places, read: ReadBytes): AsyncGenerator<string> {
  for (const { path: file } of await listJournal(path)) {
    // Renamed or removed meanwhile.
    const handle = await open(file, 'r').catch(() => undefined)
    try {
      if (handle !== undefined) yield* readAdded(handle, places, read)
    } finally {
      await handle?.close()
    }
  }
}

async function* readAdded(
  handle: FileHandle,
  places: Places,
  read: ReadBytes,
): AsyncGenerator<string> {
  const head = await readHead(handle, (first) => isIn(places, first))
  const start = read.get(head) ?? 0
  const end = places.find((place) => place.head === head)?.offset ?? 0
  if (end > start) {
    yield* linesOf(handle.createReadStream({ start, end: end - 1, autoClose: false }))
  }
}

/** What the ledger has not added of a journal yet. */
export interface Unread {
  readonly bytes: number
  /** Whole ones. */
  readonly lines: number
}

/**
 * What the ledger has not added yet of the journal at this path, so that nothing is known of it; nothing
 * if it does not know the journal.
 */
export async function countUnread(
  path: string,
  journals: LedgerState['journals'],
): Promise<Unread> {
  const own = journals.find(({ journal }) => journal === findJournalName(path))
  let [bytes, lines] = [0, 0]
  if (own === undefined) return { bytes, lines }
  for (const { path: file, size } of await listJournal(path)) {
    const handle = await open(file, 'r').catch(() => undefined)
    try {
      const head = handle && (await readHead(handle, (first) => isIn(own.places, first)))
      if (!handle || !head) continue
      const { offset = 0 } = own.places.find((place) => place.head === head) ?? {}
      if (size <= offset) continue
      bytes += size - offset
      // What is written meanwhile is not counted.
      const rest = handle.createReadStream({ start: offset, end: size - 1, autoClose: false })
      for await (const chunk of rest as AsyncIterable<Buffer>) lines += countLineEnds(chunk)
    } finally {
      await handle?.close()
    }
  }
  return { bytes, lines }
}

function countLineEnds(chunk: Buffer): number {
  let count = 0
  for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) count += 1
  return count
}

function isIn(places: Places, head: string): boolean {
  return places.some((place) => place.head === head)
}

/** Archives that may have lines of this time (milliseconds since the epoch), in order. */
function archivesOf(
  archives: readonly ListedArchive[],
  from: number,
  to: number,
): readonly ListedArchive[] {
  const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10)
  const first = archives.findLastIndex(({ day }) => day < dayOf(from))
  return archives.slice(Math.max(0, first)).filter(({ day }) => day <= dayOf(to))
}

/** What is known of the archives of a journal besides those that are read. */
interface Beyond {
  readonly journal: string
  /** The one that follows them. */
  readonly next: ListedArchive | undefined
  /** The one that the database names, if none follows them. */
  readonly last: { readonly piece: number; readonly hash: string } | undefined
}

/**
 * Lines of these archives of a journal. What was changed, reordered or taken away is named to `onProblem`;
 * the other lines are read.
 */
async function* readArchives(
  archives: readonly ListedArchive[],
  { journal, next, last }: Beyond,
  read: ReadBytes,
  onProblem: (problem: string) => void,
): AsyncGenerator<string> {
  let before: { readonly piece: number; readonly name: string; readonly hash?: string } | undefined
  for (const each of next === undefined ? archives : [...archives, next]) {
    const { piece, path } = each
    const name = basename(path)
    const lost = (before?.piece ?? piece - 1) + 1
    if (lost < piece) onProblem(`Before ${name}, ${showPieces(lost, piece - 1)} missing.`)
    if (lost > piece) onProblem(`${name} and ${before?.name} have the same number.`)
    const follows = lost === piece ? before : undefined
    before = { piece, name }
    const archive = openArchive(path)
    try {
      const header = await archive.header()
      if (header.journal !== journal || header.piece !== piece) {
        onProblem(`${name} is piece ${header.piece} of ${header.journal}: it was renamed.`)
        continue
      }
      if (follows?.hash !== undefined && header.before !== follows.hash) {
        onProblem(`${follows.name} was changed: ${name} follows another.`)
      }
      if (each === next) continue
      yield* archive.lines
      read.set(header.head, header.from + header.bytes)
      const hash = archive.hash()
      before = { piece, name, hash }
      if (last?.piece === piece && last.hash !== hash) {
        onProblem(`${name} was changed: the database names another.`)
      }
    } catch (error) {
      onProblem(`${name} was changed: it cannot be read (${errorMessage(error)}).`)
    } finally {
      await archive.close()
    }
  }
  const end = before?.piece ?? 0
  if (last !== undefined && end < last.piece) {
    onProblem(`The last of ${journal}, ${showPieces(end + 1, last.piece)} missing.`)
  }
}

function showPieces(first: number, last: number): string {
  return first === last ? `piece ${first}, is` : `pieces ${first} to ${last}, are`
}
