/** Text and names of bounded length: longer ones are cut, and end in a digest of the whole. */

import { hash } from 'node:crypto'

/** JSON needs no escapes for these, and adding quotes takes half the time of JSON.stringify. */
const plain = /^[ !#-[\]-~]*$/

/** A JSON string of at most this many bytes, with its quotes and escapes. */
export function toBoundedJson(value: string, bytes: number): string {
  const text = plain.test(value) ? `"${value}"` : JSON.stringify(value)
  // A UTF-16 unit has at most three bytes.
  if (text.length * 3 <= bytes || Buffer.byteLength(text) <= bytes) return text
  return JSON.stringify(cutText(value, bytes - 2, (char) => JSON.stringify(char).slice(1, -1)))
}

/** The longest beginning that, as written with `write`, has at most this many bytes together with the digest. */
export function cutText(value: string, bytes: number, write: (char: string) => string): string {
  const digest = `~${digest128(value)}`
  let left = bytes - digest.length
  let kept = ''
  for (const char of value) {
    left -= Buffer.byteLength(write(char))
    if (left < 0) break
    kept += char
  }
  return kept + digest
}

/** A copy of a part of a longer text, such as a header, all of which the part would retain in memory. Well-formed. */
export function copyText(part: string): string {
  return Buffer.from(part).toString()
}

/** The longest name, in UTF-16 code units. */
export const maxNameLength = 300

/**
 * The name itself, or if it is longer than `maxNameLength` its beginning and a digest of the whole.
 * Without NUL and lone surrogates, which databases do not store.
 */
export function cutName(name: string): string {
  const clean = name.toWellFormed().replaceAll('\0', '\uFFFD')
  if (clean.length <= maxNameLength) return clean
  const digest = digest128(name.toWellFormed())
  return `${clean.slice(0, maxNameLength - digest.length - 1).toWellFormed()}…${digest}`
}

/** The first 128 bits of the SHA-256 of a text, in hexadecimal digits, as a column of UUIDs takes them. */
export function digest128(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32)
}
