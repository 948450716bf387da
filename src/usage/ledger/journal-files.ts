/** The files of a journal, one by one: those with the script's lines, and those with Envoy's own. */

import { basename, dirname } from 'node:path'
import { filesOf } from '../../journal/files.ts'
import {
  type Folder,
  type LineFile as ListedFile,
  listLineFiles as listFiles,
  type OpenFile,
  openFolder,
} from '../../journal/folder.ts'
import { beginningOf, headIn, storedHead } from '../../journal/head.ts'
import type { LedgerPlace } from '../store.ts'
import { findKeptFolder } from './journal-name.ts'

/** Who writes the lines of a file. Each has a file that grows, and earlier ones. */
export const lanes = ['script', 'envoy'] as const

export type Lane = (typeof lanes)[number]

/** The names of the files that grow. */
export type LaneNames = Readonly<Record<Lane, string>>

export function namesOf(path: string): LaneNames {
  const { script, envoy } = filesOf(path)
  return { script: basename(script), envoy: basename(envoy) }
}

export interface LineFile extends ListedFile {
  readonly lane: Lane
}

/** Those of a folder, of each lane the oldest first. */
export function listLineFiles(folder: Pick<Folder, 'list'>, names: LaneNames): readonly LineFile[] {
  return listFiles(folder, [names.script, names.envoy]).map((each) => {
    return { ...each, lane: each.growing === names.script ? 'script' : 'envoy' }
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

/** How many bytes of each file these places have, by its head. */
export function offsetsOf(places: readonly LedgerPlace[]): ReadonlyMap<string, number> {
  return new Map(places.map(({ head, offset }) => [storedHead(head), offset]))
}

export interface FoundFile extends LineFile {
  readonly head: string
  /** undefined: it is gone. */
  open(): OpenFile | undefined
}

/** The journal at this path, with the copy below DATA_DIR of what its folder lacks; only files with a whole line. */
export function findLineFiles(path: string, dataDir: string | undefined): readonly FoundFile[] {
  const found = new Map<string, FoundFile>()
  const kept = dataDir === undefined ? undefined : findKeptFolder(path, dataDir)
  for (const each of [dirname(path), kept]) {
    if (each === undefined) continue
    const folder = openFolder(each)
    for (const file of listLineFiles(folder, namesOf(path))) {
      const open = () => folder.open(file.name)
      const opened = open()
      const head = opened === undefined ? '' : headIn(beginningOf(opened))
      opened?.close()
      // The same lines twice: a file and its copy, or one that is being renamed.
      const longest = found.get(head)?.size ?? -1
      if (head !== '' && file.size > longest) found.set(head, { ...file, head, open })
    }
  }
  return [...found.values()]
}
