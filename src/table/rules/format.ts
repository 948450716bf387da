/**
 * The format of the decision table's two files, which the gateway's script reads (docs/table.md). Numbers are
 * little-endian, times whole milliseconds. Each part is written and read in one call, and ends with a checksum, so that
 * a half-written part is invalid. A part of zeros is valid and empty.
 */

import { hash } from 'node:crypto'
import { cellsOfBlock } from './miss-rules.ts'

/** The magic words of both files, and the version of their format. */
const [tableMagic, lanesMagic, form] = ['TGTABLE1', 'TGLANES1', 2]

export const tableHeaderBytes = 96
export const lanesHeadBytes = 28
export const recordBytes = 256
export const blockBytes = 320
export const templateBytes = 2_048
export const nameBytes = 16
/** Records of one bucket, which are read at once; likewise names of blocks. */
export const slotsOfBucket = 8
/** Maximum bytes of a caller's members in a record, and of a template. */
export const maxRecordText = 160
export const maxTemplateText = templateBytes - 12

/** Offset of the buckets in one file, and of the lanes in the other. */
const partsAt = 4_096
/** Bytes of one lane for one block. */
const laneBytes = cellsOfBlock * 16

/** The number of each. */
export interface TableSizes {
  readonly buckets: number
  readonly blocks: number
  readonly templates: number
  readonly lanes: number
}

export type TablePlaces = ReturnType<typeof tablePlaces>

export function tablePlaces({ buckets, blocks, templates, lanes }: TableSizes) {
  const bucketsBytes = buckets * slotsOfBucket * recordBytes
  const blocksAt = partsAt + bucketsBytes
  const templatesAt = blocksAt + blocks * blockBytes
  const namesAt = templatesAt + templates * templateBytes
  return {
    recordAt: (slot: number) => partsAt + slot * recordBytes,
    blockAt: (block: number) => blocksAt + block * blockBytes,
    templateAt: (template: number) => templatesAt + template * templateBytes,
    nameAt: (slot: number) => namesAt + slot * nameBytes,
    /** Offset and length of the buckets. */
    bucketsAt: partsAt,
    bucketsBytes,
    tableBytes: namesAt + buckets * slotsOfBucket * nameBytes,
    lanesBytes: partsAt + blocks * lanes * laneBytes,
  }
}

/** The bucket of a record with this digest, or of this name. */
export function bucketOf(digest: Buffer, buckets: number): number {
  return (digest.readUInt32LE(0) & 0x7fffffff) % buckets
}

export interface TableHead extends TableSizes {
  /** Only records of this generation are in force. */
  readonly generation: number
  /** A random number, the same in both files. */
  readonly file: number
  /** End of the time in which scripts may decide by the table (CLOCK_BOOTTIME); 0 if they may not. */
  readonly lease: number
  /** CLOCK_REALTIME minus CLOCK_BOOTTIME. */
  readonly clock: number
}

export function encodeTableHeader(buffer: Buffer, head: TableHead): void {
  buffer.fill(0, 0, tableHeaderBytes)
  buffer.write(tableMagic, 0, 'latin1')
  buffer.writeUInt32LE(form, 8)
  buffer.writeUInt32LE(head.generation, 12)
  buffer.writeDoubleLE(head.file, 16)
  buffer.writeDoubleLE(head.lease, 24)
  buffer.writeDoubleLE(head.clock, 32)
  buffer.writeUInt32LE(head.buckets, 40)
  buffer.writeUInt32LE(head.blocks, 44)
  buffer.writeUInt32LE(head.templates, 48)
  buffer.writeUInt32LE(head.lanes, 52)
  seal(buffer, tableHeaderBytes)
}

export function writeLanesHead(buffer: Buffer, { file, lanes }: TableHead): void {
  buffer.fill(0, 0, lanesHeadBytes)
  buffer.write(lanesMagic, 0, 'latin1')
  buffer.writeUInt32LE(form, 8)
  buffer.writeUInt32LE(lanes, 12)
  buffer.writeDoubleLE(file, 16)
  seal(buffer, lanesHeadBytes)
}

/** Written in place of a block's number if there is none. */
const noBlock = 0xffffffff

export interface TableRecord {
  /** 32 bytes. */
  readonly digest: Buffer
  readonly generation: number
  readonly template: number
  /** At most two: the user's, then the key's. */
  readonly blocks: readonly number[]
  /** End of the record (CLOCK_BOOTTIME), and of the key itself (CLOCK_REALTIME). */
  readonly until: number
  readonly endsAt: number
  readonly inputPerByte: number
  readonly bytesPerToken: number
  /** At most `maxRecordText` bytes. */
  readonly text: string
}

export function writeRecord(buffer: Buffer, record: TableRecord): void {
  const [block = noBlock, block2 = noBlock] = record.blocks
  buffer.fill(0, 0, recordBytes)
  record.digest.copy(buffer, 0, 0, 32)
  buffer.writeUInt32LE(record.generation, 32)
  buffer.writeUInt32LE(record.template, 36)
  buffer.writeUInt32LE(block, 40)
  buffer.writeUInt32LE(block2, 44)
  buffer.writeUInt32LE(1, 48)
  buffer.writeUInt32LE(buffer.write(record.text, 88, maxRecordText), 52)
  buffer.writeDoubleLE(record.until, 56)
  buffer.writeDoubleLE(record.endsAt, 64)
  buffer.writeDoubleLE(record.inputPerByte, 72)
  buffer.writeDoubleLE(record.bytesPerToken, 80)
  seal(buffer, recordBytes)
}

/**
 * The current window of one limit, and the next, which begins at its end. An offset is the use that lanes have not
 * added.
 */
export interface TableCell {
  readonly start: number
  readonly end: number
  readonly offset: number
  readonly nextEnd: number
  readonly nextOffset: number
}

export interface TableBlock {
  /** 8 bytes. */
  readonly name: Buffer
  readonly cells: readonly TableCell[]
  /** Whether other gateways count in it, too: then only the lower half of a limit is used without asking. */
  readonly isShared: boolean
  /** End of the time (CLOCK_BOOTTIME) in which the use of other gateways is known well enough. */
  readonly freshUntil: number
}

export function writeBlock(
  buffer: Buffer,
  { name, cells, isShared, freshUntil }: TableBlock,
): void {
  buffer.fill(0, 0, blockBytes)
  buffer.writeUInt32LE(cells.length, 0)
  buffer.writeUInt32LE(isShared ? 1 : 0, 4)
  buffer.writeDoubleLE(freshUntil, 8)
  for (const [i, { start, end, offset, nextEnd, nextOffset }] of cells.entries()) {
    const at = 16 + i * 40
    buffer.writeDoubleLE(start, at)
    buffer.writeDoubleLE(end, at + 8)
    buffer.writeDoubleLE(offset, at + 16)
    buffer.writeDoubleLE(nextEnd, at + 24)
    buffer.writeDoubleLE(nextOffset, at + 32)
  }
  name.copy(buffer, 16 + cellsOfBlock * 40, 0, 8)
  seal(buffer, blockBytes)
}

/** Writes the entry of a block in the index of names. */
export function writeName(buffer: Buffer, name: Buffer, block: number): void {
  name.copy(buffer, 0, 0, 8)
  buffer.writeUInt32LE(block, 8)
  seal(buffer, nameBytes)
}

/** `text` has at most `maxTemplateText` bytes. */
export function writeTemplate(buffer: Buffer, text: string): void {
  buffer.fill(0, 0, templateBytes)
  buffer.writeUInt32LE(buffer.write(text, 8, maxTemplateText), 0)
  seal(buffer, templateBytes)
}

/** Checksum of the words before the last one, in a part of this length. */
export function tableChecksum(buffer: Buffer, bytes: number): number {
  let sum = 0
  for (let at = 0; at < bytes - 4; at += 4) {
    sum = (((sum << 5) | (sum >>> 27)) + buffer.readInt32LE(at)) | 0
  }
  return sum
}

function seal(buffer: Buffer, bytes: number): void {
  buffer.writeInt32LE(tableChecksum(buffer, bytes), bytes - 4)
}

/**
 * The digest of a record, from the parts of a request that a script knows without asking Check. `path`: as normalized
 * by the gateway, with its query; `model`: from the body, empty if the path names one. None of the three can contain
 * the separator.
 */
export function recordDigest(credential: string, path: string, model: string): Buffer {
  return hash('sha256', `${credential}\0${path}\0${model}`, 'buffer')
}
