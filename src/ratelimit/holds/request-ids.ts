/** Request ids in the short form of hold stores. Pure. */

import { createHash } from 'node:crypto'

const memberBytes = 12

const uuidLength = 36
const dash = 0x2d
/** The value of each hexadecimal digit by its code; -1 for other ASCII characters. */
const digits = new Int8Array(128).fill(-1)
for (const digit of '0123456789abcdefABCDEF') {
  digits[digit.charCodeAt(0)] = Number.parseInt(digit, 16)
}
const bytes = Buffer.alloc(memberBytes)

/**
 * Shortens a request id to 16 characters (96 bits). A UUID keeps its random bytes, without version and variant: Envoy
 * encodes in the version whether the request is traced.
 */
export function shortRequestId(id: string): string {
  if (!readUuid(id)) createHash('sha256').update(id).digest().copy(bytes, 0, 0, memberBytes)
  return bytes.toString('base64url')
}

/**
 * Reads the first 12 and the last 12 digits of a UUID into `bytes`; returns false for other texts. Much cheaper than a
 * regular expression and a Buffer, and every response is looked up by its id.
 */
function readUuid(id: string): boolean {
  if (id.length !== uuidLength) return false
  let at = 0
  for (let i = 0; i < uuidLength; i += 1) {
    const code = id.charCodeAt(i)
    if (i === 8 || i === 13 || i === 18 || i === 23) {
      if (code !== dash) return false
      continue
    }
    const digit = digits[code] ?? -1
    if (digit < 0) return false
    if (i > 13 && i < 24) continue
    bytes[at >> 1] = ((bytes[at >> 1] as number) << 4) | digit
    at += 1
  }
  return true
}
