/**
 * What a store remembers of a counted response, to count none twice. Pure. Responses are grouped by
 * the minute in which they ended, and forgotten by the minute.
 */

import { createHash } from 'node:crypto'

const minuteMs = 60_000
/** More than the two sources differ about the end of a response. */
const edgeMs = 1_000
const memberBytes = 12

/** The minute in which a response ended, since the epoch. */
export function minuteOf(endedAt: number): number {
  return Math.floor(endedAt / minuteMs)
}

/** The neighbouring minute in which the other source may have seen the end; undefined for most. */
export function neighbourOf(endedAt: number): number | undefined {
  const into = endedAt - minuteOf(endedAt) * minuteMs
  if (into < edgeMs) return minuteOf(endedAt) - 1
  if (into >= minuteMs - edgeMs) return minuteOf(endedAt) + 1
  return undefined
}

/** The first minute that is kept when responses that ended before this time are forgotten. */
export function firstKeptMinute(endedBefore: number): number {
  return minuteOf(endedBefore - edgeMs)
}

const uuidLength = 36
const dash = 0x2d
/** The value of each hexadecimal digit by its code; -1 for other characters of ASCII. */
const digits = new Int8Array(128).fill(-1)
for (const digit of '0123456789abcdefABCDEF') {
  digits[digit.charCodeAt(0)] = Number.parseInt(digit, 16)
}
const bytes = Buffer.alloc(memberBytes)
const words = new Uint32Array(bytes.buffer, bytes.byteOffset, memberBytes / 4)

/**
 * A request id in 16 characters (96 bits). For a UUID, its random bytes without version and
 * variant: Envoy encodes in the version whether the request is traced.
 */
export function memberOf(id: string): string {
  readId(id)
  return bytes.toString('base64url')
}

/** The same 96 bits as three numbers. */
export type IdWords = Uint32Array

/** The array is overwritten by the next call. */
export function wordsOf(id: string): IdWords {
  readId(id)
  return words
}

/** Reads an id into `bytes`. */
function readId(id: string): void {
  if (!readUuid(id)) createHash('sha256').update(id).digest().copy(bytes, 0, 0, memberBytes)
}

/**
 * Reads the first 12 and the last 12 digits of a UUID into `bytes`; false for another text. Much
 * cheaper than a regular expression and a Buffer, and every response is looked up by its id.
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
