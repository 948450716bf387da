/**
 * The head of a file: a fingerprint that does not change when the file is moved, made from its first line, which has a
 * unique id.
 */

import { hash } from 'node:crypto'
import type { OpenFile } from './journal-folder.ts'

/** Maximum number of bytes of the first line that are hashed; lines are usually shorter. */
export const headBytes = 4_096
const lineEnd = 10
const [openingBrace, closingBrace] = [123, 125]
/** Hexadecimal digits of a head. */
const digits = 16

/** The first bytes of a file, at most `headBytes`. */
export function readFileStart(file: Pick<OpenFile, 'read'>): Buffer {
  const bytes = Buffer.allocUnsafe(headBytes)
  return bytes.subarray(0, file.read(bytes, 0))
}

/**
 * Digest of the first whole line in the bytes at a file's start: a line that a full disk has cut off may lack the id, so
 * two files can have the same. Empty until there is one, or `headBytes` are full; constant afterwards.
 */
export function fileHeadOf(bytes: Buffer): string {
  let begin = 0
  let end = -1
  do {
    begin = end + 1
    while (bytes[begin] === lineEnd) begin += 1
    end = bytes.indexOf(lineEnd, begin)
  } while (end >= 0 && bytes[begin] === openingBrace && bytes[end - 1] !== closingBrace)
  if (end < 0 && bytes.length < headBytes) return ''
  const line = bytes.subarray(begin, end < 0 ? headBytes : end)
  return hash('sha256', line, 'hex').slice(0, digits)
}

/** Converts a stored head; the previous version stored more digits. */
export function headFromLedger(head: string): string {
  return head.slice(0, digits)
}
