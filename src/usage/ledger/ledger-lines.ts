/** Reads the lines of a journal that are in a ledger, from its archives and the files that still exist. */

import { basename, join } from 'node:path'
import type { TimeRange } from '../../formats/time-range.ts'
import { headFromLedger } from '../../journal/file-head.ts'
import { createJournalFollower, type JournalPosition } from '../../journal/follower.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import type { LedgerState } from '../store.ts'
import { type ListedArchive, listArchives, openArchive } from './archive-file.ts'
import {
  journalFoldersOf,
  type LineSource,
  lineSources,
  positionOfPlaces,
  sourceNames,
} from './journal-files.ts'
import { findJournalName } from './journal-name.ts'

type Places = LedgerState['journals'][number]['places']

/** Lines of a file or of a part of one. Read them to their end before the next ones. */
export interface KeptFile {
  readonly source: LineSource
  /** Whether more lines may be added to it. */
  readonly isCurrent: boolean
  readonly lines: AsyncIterable<string> | Iterable<string>
}

/** The surviving lines of one journal that are in the ledger, in order. */
export interface KeptJournal {
  readonly journal: string
  readonly files: AsyncIterable<KeptFile>
}

/**
 * The places with lines: the journal at a path, its copy below DATA_DIR, and the archives of all journals in a folder.
 */
export interface KeptPlaces {
  readonly path: string | undefined
  readonly dataDir?: string | undefined
  readonly folder: string | undefined
}

/**
 * Finds the surviving lines of this time, for each journal that the ledger knows. Problems of archives are reported to
 * `onProblem` while their lines are read.
 */
export async function findSurvivingLines(
  { path, dataDir, folder }: KeptPlaces,
  { journals, archives }: Pick<LedgerState, 'journals' | 'archives'>,
  { from, to }: TimeRange,
  onProblem: (problem: string) => void,
): Promise<readonly KeptJournal[]> {
  const own = path && findJournalName(path, dataDir)
  const kept: KeptJournal[] = []
  for (const { journal, places } of journals) {
    const all = folder === undefined ? [] : await listArchives(join(folder, journal))
    const some = archivesOf(all, from, to)
    const head = archives.find((each) => each.journal === journal)
    // The hash of the last of these archives is confirmed by the archive after it or, if there is none, by the
    // database.
    const next = all[all.indexOf(some.at(-1) as ListedArchive) + 1]
    const last = folder !== undefined && next === undefined ? head : undefined
    if (some.length === 0 && journal !== own && !last?.piece) continue
    async function* files() {
      const read: JournalPosition = new Map()
      yield* readArchives(some, { journal, next, last }, read, onProblem)
      if (path !== undefined && journal === own) yield* readFiles(path, dataDir, places, read)
    }
    kept.push({ journal, files: files() })
  }
  return kept
}

/** The parts of the journal's files that are in the ledger, from `position` on. */
function* readFiles(
  path: string,
  dataDir: string | undefined,
  places: Places,
  position: JournalPosition,
): Generator<KeptFile> {
  const names = sourceNames(path)
  const archived = new Set(position.keys())
  let lines: string[] = []
  let [head, name] = ['', '']
  for (const folder of journalFoldersOf(path, dataDir)) {
    const follower = createJournalFollower({
      folder,
      names: Object.values(names),
      position,
      until: positionOfPlaces(places),
      onLine(line, ...from) {
        lines.push(line)
        ;[head, name] = from
      },
      now: Date.now,
    })
    try {
      for (const _ of follower.readAll()) {
        const one = follower.files().find((each) => each.head === head)
        const isCurrent = one?.isCurrent === true && !archived.has(head)
        yield { source: name === names.script ? 'script' : 'envoy', isCurrent, lines }
        lines = []
      }
    } finally {
      follower.close()
    }
  }
}

/** Archives that may have lines of this time (milliseconds since the epoch), in order, without a gap. */
function archivesOf(
  archives: readonly ListedArchive[],
  from: number,
  to: number,
): readonly ListedArchive[] {
  const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10)
  // For each source, the last archive that began before.
  const begun = lineSources
    .map((source) =>
      archives.findLastIndex((each) => each.source === source && each.day < dayOf(from)),
    )
    .filter((at) => at >= 0)
  const end = archives.findLastIndex(({ day }) => day <= dayOf(to)) + 1
  return archives.slice(begun.length === 0 ? 0 : Math.min(...begun), end)
}

/** Known facts about the archives of a journal after those that are read. */
interface Beyond {
  readonly journal: string
  /** The archive that follows them. */
  readonly next: ListedArchive | undefined
  /** The archive that the database names, if none follows them. */
  readonly last: { readonly piece: number; readonly hash: string } | undefined
}

/**
 * Reads the lines of these archives of a journal. Changed, reordered and missing archives are reported to `onProblem`;
 * the readable lines are read nevertheless.
 */
async function* readArchives(
  archives: readonly ListedArchive[],
  { journal, next, last }: Beyond,
  read: JournalPosition,
  onProblem: (problem: string) => void,
): AsyncGenerator<KeptFile> {
  let before: { readonly piece: number; readonly name: string; readonly hash?: string } | undefined
  for (const each of next === undefined ? archives : [...archives, next]) {
    const { piece, path, source } = each
    const name = basename(path)
    const lost = (before?.piece ?? piece - 1) + 1
    if (lost < piece) onProblem(`Before ${name}, ${showPieces(lost, piece - 1)} missing.`)
    if (lost > piece) onProblem(`${name} and ${before?.name} have the same number.`)
    const follows = lost === piece ? before : undefined
    before = { piece, name }
    const archive = openArchive(path)
    const noteUnreadable = (error: unknown): void =>
      onProblem(`${name} was changed: it cannot be read (${errorMessage(error)}).`)
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
      const whole = readWhole(archive.lines, noteUnreadable)
      yield { source, isCurrent: false, lines: whole.lines }
      if (!whole.isRead()) continue
      read.set(headFromLedger(header.head), header.from + header.bytes)
      const hash = archive.hash()
      before = { piece, name, hash }
      if (last?.piece === piece && last.hash !== hash) {
        onProblem(`${name} was changed: the database names another.`)
      }
    } catch (error) {
      noteUnreadable(error)
    } finally {
      await archive.close()
    }
  }
  const end = before?.piece ?? 0
  if (last !== undefined && end < last.piece) {
    onProblem(`The last of ${journal}, ${showPieces(end + 1, last.piece)} missing.`)
  }
}

/** Lines up to the first unreadable one, and whether they were read to their end. */
function readWhole(lines: AsyncIterable<string>, onFault: (error: unknown) => void) {
  let isRead = false
  async function* readable() {
    try {
      yield* lines
      isRead = true
    } catch (error) {
      onFault(error)
    }
  }
  return { lines: readable(), isRead: () => isRead }
}

function showPieces(first: number, last: number): string {
  return first === last ? `piece ${first}, is` : `pieces ${first} to ${last}, are`
}
