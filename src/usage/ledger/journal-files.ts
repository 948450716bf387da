/** The files of a journal: those with the script's lines, and those with Envoy's own. */

import { basename, dirname } from 'node:path'
import { headFromLedger } from '../../journal/file-head.ts'
import type { JournalPosition } from '../../journal/follower.ts'
import { journalFilesOf } from '../../journal/journal-files.ts'
import {
  type JournalFolder,
  type LineFile,
  listLineFiles,
  type OpenFile,
  openJournalFolder,
} from '../../journal/journal-folder.ts'
import type { LedgerPlace } from '../store.ts'
import { findKeptFolder } from './journal-name.ts'

/** The programs that write lines, each to a current file, which is rotated. */
export const lineSources = ['script', 'envoy'] as const

export type LineSource = (typeof lineSources)[number]

/** Names of the current files. */
export type SourceNames = Readonly<Record<LineSource, string>>

/** The names of the current files of the journal at this path. */
export function sourceNames(path: string): SourceNames {
  const { script, envoy } = journalFilesOf(path)
  return { script: basename(script), envoy: basename(envoy) }
}

export interface JournalFile extends LineFile {
  readonly source: LineSource
}

/** Lists the journal files in a folder, for each source the oldest first. */
export function listJournalFiles(
  folder: Pick<JournalFolder, 'list'>,
  names: SourceNames,
): readonly JournalFile[] {
  return listLineFiles(folder, [names.script, names.envoy]).map((each) => {
    return { ...each, source: each.growing === names.script ? 'script' : 'envoy' }
  })
}

const pieceBytes = 65_536

/** The bytes of a file from one offset to before another. */
export async function* bytesOf(file: OpenFile, from: number, to: number): AsyncGenerator<Buffer> {
  for (let at = from; at < to; ) {
    const piece = Buffer.allocUnsafe(Math.min(pieceBytes, to - at))
    const bytes = file.read(piece, at)
    if (bytes === 0) return
    yield piece.subarray(0, bytes)
    at += bytes
  }
}

/** The position that these places record. */
export function positionOfPlaces(places: readonly LedgerPlace[]): JournalPosition {
  return new Map(places.map(({ head, offset }) => [headFromLedger(head), offset]))
}

/** The folder of the journal at this path, and the one with copies, which may have files that the first one lacks. */
export function journalFoldersOf(
  path: string,
  dataDir: string | undefined,
): readonly JournalFolder[] {
  const kept = dataDir === undefined ? undefined : findKeptFolder(path, dataDir)
  return [dirname(path), ...(kept === undefined ? [] : [kept])].map((each) =>
    openJournalFolder(each),
  )
}
