/**
 * The head file of a gateway's folder: 64 bytes that Envoy's script compares before it writes a line. They tell it
 * whether its file was renamed, and the script counts in them the lines that it could not write. Numbers are
 * little-endian, as on every machine that Envoy runs on.
 */

import * as fs from 'node:fs'

/**
 * The service writes bytes 0 to 7, the magic number, 8 to 11, the format version, and 12 to 15, the number of
 * rotations: a script reopens its file when that number has changed. Scripts write 16 to 19, the number of lines that
 * they failed to write; of two simultaneous failures one may be missing, which is harmless, since one is enough for the
 * alarm.
 */
const headFileBytes = 64
const magic = 0x314c4f5454n
const form = 1
const [formAt, renamedAt, failedAt] = [8, 12, 16]

/** Creates the file, or opens the existing one and continues its numbers. */
export function openHeadFile(path: string, mode = 0o600) {
  const { O_RDWR, O_CREAT, O_NOFOLLOW } = fs.constants
  const file = fs.openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, mode)
  const bytes = Buffer.alloc(headFileBytes)
  fs.readSync(file, bytes, 0, headFileBytes, 0)
  if (bytes.readBigUInt64LE(0) !== magic || bytes.readUInt32LE(formAt) !== form) {
    bytes.fill(0)
    bytes.writeBigUInt64LE(magic, 0)
    bytes.writeUInt32LE(form, formAt)
    fs.writeSync(file, bytes, 0, headFileBytes, 0)
  }

  return {
    read() {
      fs.readSync(file, bytes, 0, headFileBytes, 0)
      return { renamed: bytes.readUInt32LE(renamedAt), failed: bytes.readUInt32LE(failedAt) }
    },
    /** Call it after a rotation. */
    noteRenamed(): void {
      const number = Buffer.alloc(4)
      fs.readSync(file, number, 0, 4, renamedAt)
      number.writeUInt32LE((number.readUInt32LE() + 1) >>> 0)
      // One aligned write: a reader gets the old number or the new one.
      fs.writeSync(file, number, 0, 4, renamedAt)
    },
    close: (): void => fs.closeSync(file),
  }
}
