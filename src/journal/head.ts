/** What identifies a file of lines, wherever it is moved: its first line, which has an id of its own. */

import { hash } from 'node:crypto'
import type { OpenFile } from './folder.ts'

/** Lines are shorter; of a longer first one, what identifies it. */
export const headBytes = 4_096
const lineEnd = 10
/** Hexadecimal digits of a head. */
const digits = 16

/** The first bytes of a file, which identify it. */
export function beginningOf(file: Pick<OpenFile, 'read'>): Buffer {
  const bytes = Buffer.allocUnsafe(headBytes)
  return bytes.subarray(0, file.read(bytes, 0))
}

/**
 * A digest of the first line that is not empty, of the bytes at a file's start; empty until the line is
 * whole, and never another one afterwards.
 */
export function headIn(bytes: Buffer): string {
  let begin = 0
  while (bytes[begin] === lineEnd) begin += 1
  const end = bytes.indexOf(lineEnd, begin)
  if (end < 0 && bytes.length < headBytes) return ''
  const line = bytes.subarray(begin, end < 0 ? headBytes : end)
  return hash('sha256', line, 'hex').slice(0, digits)
}

/** A stored head, of which the version before kept more digits. */
export function headFromLedger(head: string): string {
  return head.slice(0, digits)
}
