/** The files of a journal, one by one: those with the script's lines, and those with Envoy's own. */

import { basename, dirname } from 'node:path'
import { filesOf } from '../../journal/files.ts'
import {
  type Folder,
  type LineFile,
  listLineFiles,
  type OpenFile,
  openFolder,
} from '../../journal/folder.ts'
import type { Position } from '../../journal/follower.ts'
import { headFromLedger } from '../../journal/head.ts'
import type { LedgerPlace } from '../store.ts'
import { findKeptFolder } from './journal-name.ts'

/** Who writes the lines of a file. Each has a file that grows, and earlier ones. */
export const sources = ['script', 'envoy'] as const

export type LineSource = (typeof sources)[number]

/** The names of the files that grow. */
export type SourceNames = Readonly<Record<LineSource, string>>

export function sourceNames(path: string): SourceNames {
  const { script, envoy } = filesOf(path)
  return { script: basename(script), envoy: basename(envoy) }
}

export interface JournalFile extends LineFile {
  readonly source: LineSource
}

/** Those of a folder, of each source the oldest first. */
export function listJournalFiles(
  folder: Pick<Folder, 'list'>,
  names: SourceNames,
): readonly JournalFile[] {
  return listLineFiles(folder, [names.script, names.envoy]).map((each) => {
    return { ...each, source: each.growing === names.script ? 'script' : 'envoy' }
  })
}

const pieceBytes = 65_536

/** Its bytes from one offset to another, which is excluded. */
export async function* bytesOf(file: OpenFile, from: number, to: number): AsyncGenerator<Buffer> {
  for (let at = from; at < to; ) {
    const piece = Buffer.allocUnsafe(Math.min(pieceBytes, to - at))
    const bytes = file.read(piece, at)
    if (bytes === 0) return
    yield piece.subarray(0, bytes)
    at += bytes
  }
}

/** How far each file was read, as these places say it. */
export function positionOf(places: readonly LedgerPlace[]): Position {
  return new Map(places.map(({ head, offset }) => [headFromLedger(head), offset]))
}

/** The folder of the journal at this path, and that with copies of what it may lack. */
export function foldersOf(path: string, dataDir: string | undefined): readonly Folder[] {
  const kept = dataDir === undefined ? undefined : findKeptFolder(path, dataDir)
  return [dirname(path), ...(kept === undefined ? [] : [kept])].map((each) => openFolder(each))
}
