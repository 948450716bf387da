/**
 * The two files of a decision table while this process has them open: the one that scripts only read, and the lanes,
 * which they write. All bytes are written at creation, so that no later write needs space and no read meets a hole. A
 * file never changes its length or layout: another table is another pair of files.
 */

import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { createAndOpenFile, type FileMode } from '../journal/prepare-folder.ts'
import {
  blockBytes,
  encodeTableHeader,
  lanesHeadBytes,
  nameBytes,
  recordBytes,
  type TableBlock,
  type TableHead,
  type TablePlaces,
  type TableRecord,
  type TableSizes,
  tableHeaderBytes,
  tablePlaces,
  templateBytes,
  writeBlock,
  writeLanesHead,
  writeName,
  writeRecord,
  writeTemplate,
} from './rules/format.ts'

export interface TablePaths {
  readonly table: string
  readonly lanes: string
}

export type TableFiles = ReturnType<typeof openFiles>

/** Zeros, and the bytes that are written at once: one slice of work. */
const chunk = Buffer.alloc(262_144)
const seen = Buffer.alloc(tableHeaderBytes)
/** Left for the lines of the journal. */
const spareBytes = 1_048_576
/** Offset of the file's number in its head. */
const numberAt = 16

/**
 * Steps that create both files, without a lease, in place of existing ones. Returns undefined if they are not wanted any
 * more once they are complete. Throws if there is no space for them, which the journal would lack too. Then leaves no
 * files behind.
 */
export function* createTableFiles(
  paths: TablePaths,
  mode: FileMode,
  head: TableHead,
  isWanted: () => boolean,
): Generator<undefined, TableFiles | undefined> {
  const places = tablePlaces(head)
  const made: number[] = []
  const bytes = places.lanesBytes + places.tableBytes
  const { bavail, bsize } = fs.statfsSync(dirname(paths.table))
  if (bavail * bsize < bytes + spareBytes) throw lackOfSpace(paths.table, bytes)
  try {
    for (const [path, bytes] of [
      [paths.lanes, places.lanesBytes],
      [paths.table, places.tableBytes],
    ] as const) {
      fs.rmSync(draftOf(path), { force: true })
      const file = createAndOpenFile(draftOf(path), mode)
      made.push(file)
      for (let at = 0; at < bytes; at += chunk.length) {
        writeWhole(file, chunk, Math.min(chunk.length, bytes - at), at)
        yield
      }
    }
    if (!isWanted()) {
      discard()
      return undefined
    }
    const [lanes = -1, table = -1] = made
    const files = openFiles(paths, table, lanes, places, head)
    files.writeHead(head)
    files.rename()
    return files
  } catch (error) {
    discard()
    throw error
  }

  function discard(): void {
    for (const file of made) fs.closeSync(file)
    for (const path of [paths.lanes, paths.table]) fs.rmSync(draftOf(path), { force: true })
  }
}

function draftOf(path: string): string {
  return `${path}.new`
}

function openFiles(
  paths: TablePaths,
  table: number,
  lanes: number,
  places: TablePlaces,
  sizes: TableSizes,
) {
  const buffer = Buffer.alloc(templateBytes)
  const identities = [table, lanes].map(identityOf)
  const [head, lanesHead] = [Buffer.alloc(tableHeaderBytes), Buffer.alloc(lanesHeadBytes)]

  const put = (bytes: number, at: number): void => writeWhole(table, buffer, bytes, at)
  const clear = (bytes: number, at: number): void => writeWhole(table, chunk, bytes, at)

  return {
    sizes,
    bytes: places.tableBytes + places.lanesBytes,
    /** Lanes first: scripts accept a table once its lanes are there. */
    rename(): void {
      fs.renameSync(draftOf(paths.lanes), paths.lanes)
      fs.renameSync(draftOf(paths.table), paths.table)
    },
    /** Whether these files are at their paths, complete, and with the heads written last. */
    isInPlace: (): boolean =>
      identityAt(paths.table, places.tableBytes) === identities[0] &&
      identityAt(paths.lanes, places.lanesBytes) === identities[1] &&
      beginsWith(table, head) &&
      beginsWith(lanes, lanesHead),
    writeHead(written: TableHead): void {
      if (written.lease === 0) {
        writeLanesHead(lanesHead, written)
        writeWhole(lanes, lanesHead, lanesHeadBytes, 0)
      }
      encodeTableHeader(head, written)
      writeWhole(table, head, tableHeaderBytes, 0)
    },
    writeRecord(slot: number, record: TableRecord): void {
      writeRecord(buffer, record)
      put(recordBytes, places.recordAt(slot))
    },
    clearRecord: (slot: number): void => clear(recordBytes, places.recordAt(slot)),
    clearRecords(): void {
      const { bucketsAt, bucketsBytes } = places
      for (let at = 0; at < bucketsBytes; at += chunk.length) {
        clear(Math.min(chunk.length, bucketsBytes - at), bucketsAt + at)
      }
    },
    writeBlock(block: number, written: TableBlock): void {
      writeBlock(buffer, written)
      put(blockBytes, places.blockAt(block))
    },
    clearBlock: (block: number): void => clear(blockBytes, places.blockAt(block)),
    writeName(slot: number, name: Buffer, block: number): void {
      writeName(buffer, name, block)
      put(nameBytes, places.nameAt(slot))
    },
    clearName: (slot: number): void => clear(nameBytes, places.nameAt(slot)),
    writeTemplate(template: number, text: string): void {
      writeTemplate(buffer, text)
      put(templateBytes, places.templateAt(template))
    },
    /** Empties the table, even for scripts that have it open. */
    truncate: (): void => fs.ftruncateSync(table, 0),
    /** Also empties a copy at the table's path, from which no record would be withdrawn. Throws if it can't. */
    emptyCopy(): void {
      const file = openToEmpty(paths.table)
      if (file === undefined) return
      try {
        // Other tables have another number.
        const isCopy = fs.fstatSync(file).isFile() && beginsWith(file, head, numberAt, 8)
        if (isCopy) fs.ftruncateSync(file, 0)
      } finally {
        fs.closeSync(file)
      }
    },
    close(): void {
      fs.closeSync(table)
      fs.closeSync(lanes)
    },
  }
}

/** Returns undefined if there is no file. */
function openToEmpty(path: string): number | undefined {
  const { O_RDWR, O_NOFOLLOW, O_NONBLOCK } = fs.constants
  try {
    return fs.openSync(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ELOOP', 'EISDIR'].includes(code)) return undefined
    throw error
  }
}

/** Whether this part of the file equals the same part of the bytes. */
function beginsWith(file: number, bytes: Buffer, from = 0, length = bytes.length - from): boolean {
  const read = fs.readSync(file, seen, 0, length, from)
  return read === length && bytes.compare(seen, 0, length, from, from + length) === 0
}

function identityOf(file: number): string {
  const { dev, ino } = fs.fstatSync(file, { bigint: true })
  return `${dev}:${ino}`
}

/** Returns undefined if there is no file of this length. */
function identityAt(path: string, bytes: number): string | undefined {
  const stat = fs.statSync(path, { throwIfNoEntry: false, bigint: true })
  return stat?.size === BigInt(bytes) ? `${stat.dev}:${stat.ino}` : undefined
}

/** Writes in one call: between two calls a reader would find a part that is half old. */
function writeWhole(file: number, buffer: Buffer, bytes: number, at: number): void {
  const written = fs.writeSync(file, buffer, 0, bytes, at)
  if (written !== bytes) throw new Error(`only ${written} of ${bytes} bytes could be written`)
}

function lackOfSpace(path: string, bytes: number): Error {
  const message = `${path} cannot be written (ENOSPC): free ${Math.ceil(bytes / 1e6) + 1} MB there`
  return Object.assign(new Error(message), { code: 'ENOSPC', path })
}
