/**
 * Encodes header blocks (HPACK, RFC 7541). Recurring fields are put into the peer's table once.
 * Blocks that consist only of them are two or three bytes and are cached.
 */

import { staticFields } from './static-table.ts'

/** A header list. A list of only agreed fields must be the same object every time. */
export type FieldList = readonly FieldToSend[]

interface FieldToSend {
  readonly name: string
  readonly value: string
  /** The field is the same in most responses and worth an entry in the peer's table. */
  readonly agreed?: boolean
}

/** The default size of a peer's table (RFC 9113, 6.5.2). */
const defaultTableBytes = 4_096
/** Few enough to fit into the smallest table that is used, so that none is ever evicted. */
const maxAgreed = 8

/** Indexes by name and value in the static table; the value -1 stands for the name alone. */
const staticIndex = new Map<string, number>()
for (const [index, [name, value]] of staticFields.entries()) {
  const key = `${name}\0`
  if (!staticIndex.has(key)) staticIndex.set(key, index + 1)
  if (value !== '') staticIndex.set(`${name}\0${value}`, index + 1)
}

/** The encoder of a connection. */
export class HpackEncoder {
  readonly #blocks = new Map<FieldList, Buffer>()
  readonly #agreed: FieldToSend[] = []
  #usesTable = true
  #toEmpty = false

  /** The peer's SETTINGS_HEADER_TABLE_SIZE. If it was ever below the default, the table is not used. */
  limitTable(bytes: number): void {
    if (bytes >= defaultTableBytes || !this.#usesTable) return
    this.#usesTable = false
    this.#toEmpty = true
    this.#agreed.length = 0
    this.#blocks.clear()
  }

  /** The block of this list. Every encoded block must be sent, in this order. */
  encode(fields: FieldList): Buffer {
    const known = this.#blocks.get(fields)
    if (known !== undefined) return known
    const bytes: number[] = []
    // The first block after a smaller limit begins with the new size (RFC 7541, 4.2).
    if (this.#toEmpty) bytes.push(0x20)
    let repeats = !this.#toEmpty
    this.#toEmpty = false
    let lasts = true
    for (const field of fields) {
      const index = this.#agreed.indexOf(field)
      const fixed = staticIndex.get(`${field.name}\0${field.value}`)
      if (fixed !== undefined && field.value !== '') {
        putInteger(bytes, 0x80, 7, fixed)
      } else if (index >= 0) {
        putInteger(bytes, 0x80, 7, staticFields.length + this.#agreed.length - index)
      } else if (field.agreed && this.#usesTable && this.#agreed.length < maxAgreed) {
        putLiteral(bytes, 0x40, 6, field)
        this.#agreed.push(field)
        // The indexes of earlier entries have changed.
        this.#blocks.clear()
        repeats = false
      } else {
        putLiteral(bytes, 0, 4, field)
        if (!field.agreed) lasts = false
      }
    }
    // Not from Buffer's pool, of which a block of a few bytes would retain 64 KiB for each connection.
    const block = Buffer.allocUnsafeSlow(bytes.length)
    block.set(bytes)
    if (repeats && lasts) this.#blocks.set(fields, block)
    return block
  }
}

/** RFC 7541, 5.1. */
function putInteger(bytes: number[], pattern: number, bits: number, value: number): void {
  const max = (1 << bits) - 1
  if (value < max) {
    bytes.push(pattern | value)
    return
  }
  bytes.push(pattern | max)
  let rest = value - max
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
}

/** RFC 7541, 6.2: with the static table's index of its name, if it has one. */
function putLiteral(bytes: number[], pattern: number, bits: number, field: FieldToSend): void {
  const name = staticIndex.get(`${field.name}\0`)
  putInteger(bytes, pattern, bits, name ?? 0)
  if (name === undefined) putString(bytes, field.name)
  putString(bytes, field.value)
}

function putString(bytes: number[], text: string): void {
  putInteger(bytes, 0, 7, text.length)
  for (let i = 0; i < text.length; i += 1) bytes.push(text.charCodeAt(i) & 0xff)
}
