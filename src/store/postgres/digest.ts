/** Names that may be too long for an index. */

import { hash } from 'node:crypto'

/** The first 128 bits of the SHA-256 of a text, in hexadecimal digits, as a column of UUIDs takes them. */
export function digestOf(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32)
}
