/** Decodes header blocks (HPACK, RFC 7541); one decoder per connection. */

import { ConnectionError, errorCode } from './frames.ts'
import { decodeHuffman, maxExpansion } from './huffman.ts'
import { type Field, fieldOverhead, toField } from './request-head.ts'
import { staticFields } from './static-table.ts'

/** Our SETTINGS_HEADER_TABLE_SIZE, the default. */
const tableBytes = 4_096

/** Index 0 is invalid. */
const table: readonly (Field | undefined)[] = [
  undefined,
  ...staticFields.map(([name, value]) => toField(name, value)),
]

/** Decoded Huffman text; shared, because a field copies what it needs. */
let text = Buffer.allocUnsafeSlow(1_024)

/** Receives each field of a block, in order. */
interface FieldSink {
  add(field: Field): void
}

/**
 * The decoder of a connection. A block that cannot be decoded ends the connection, because the
 * tables of both sides differ from then on.
 */
export class HpackDecoder {
  readonly #dynamic = new DynamicTable()
  #block: Buffer = Buffer.alloc(0)
  #at = 0
  #end = 0

  /** Decodes the block from `start` to `end`. Throws a ConnectionError for an invalid one. */
  decode(block: Buffer, start: number, end: number, sink: FieldSink): void {
    this.#block = block
    this.#at = start
    this.#end = end
    let begun = false
    while (this.#at < end) {
      const byte = block[this.#at] as number
      if (byte >= 0x80) {
        // Indexed (6.1).
        sink.add(this.#fieldAt(this.#integer(7)))
      } else if (byte >= 0x40) {
        // Literal with incremental indexing (6.2.1).
        const field = this.#literal(6)
        this.#dynamic.add(field)
        sink.add(field)
      } else if (byte < 0x20) {
        // Literal without indexing, or never indexed (6.2.2, 6.2.3).
        sink.add(this.#literal(4))
      } else {
        // A new table size (6.3), allowed only at the start of a block (4.2).
        const size = this.#integer(5)
        if (begun) throw fail('table size within a block')
        if (size > tableBytes) throw fail(`table size ${size}`)
        this.#dynamic.resize(size)
        continue
      }
      begun = true
    }
  }

  #fieldAt(index: number): Field {
    const field = index < table.length ? table[index] : this.#dynamic.at(index - table.length)
    if (field === undefined) throw fail(`index ${index}`)
    return field
  }

  #literal(bits: number): Field {
    const index = this.#integer(bits)
    const name = index === 0 ? this.#string() : this.#fieldAt(index).name
    return toField(name, this.#string())
  }

  /** An integer with a prefix of this many bits (5.1). */
  #integer(bits: number): number {
    const block = this.#block
    const max = (1 << bits) - 1
    let value = this.#byte() & max
    if (value < max) return value
    for (let shift = 0; shift <= 21; shift += 7) {
      if (this.#at >= this.#end) throw fail('cut short')
      const byte = block[this.#at++] as number
      value += (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw fail('integer is too long')
  }

  /** A string (5.2); each byte is one character, as in HTTP. */
  #string(): string {
    if (this.#at >= this.#end) throw fail('cut short')
    const coded = (this.#block[this.#at] as number) >= 0x80
    const length = this.#integer(7)
    if (length > this.#end - this.#at) throw fail('cut short')
    const start = this.#at
    this.#at += length
    if (!coded) return this.#block.toString('latin1', start, this.#at)
    const maxLength = Math.ceil(length * maxExpansion)
    if (text.length < maxLength) text = Buffer.allocUnsafeSlow(maxLength)
    const decoded = decodeHuffman(this.#block, start, this.#at, text)
    if (decoded < 0) throw fail('no such code')
    return text.toString('latin1', 0, decoded)
  }

  #byte(): number {
    if (this.#at >= this.#end) throw fail('cut short')
    return this.#block[this.#at++] as number
  }
}

/** The dynamic table (2.3.2): newest entry first; the oldest are evicted (4). */
class DynamicTable {
  /** The newest is last; entries before `#oldest` are evicted. */
  #fields: Field[] = []
  #oldest = 0
  #bytes = 0
  #maxBytes = tableBytes

  at(index: number): Field | undefined {
    const at = this.#fields.length - 1 - index
    return at >= this.#oldest ? this.#fields[at] : undefined
  }

  /** An entry larger than the table empties it and is not stored (4.4). */
  add(field: Field): void {
    const bytes = sizeOf(field)
    this.#shrink(this.#maxBytes - bytes)
    if (bytes > this.#maxBytes) return
    this.#fields.push(field)
    this.#bytes += bytes
  }

  resize(bytes: number): void {
    this.#maxBytes = bytes
    this.#shrink(bytes)
  }

  #shrink(bytes: number): void {
    while (this.#bytes > bytes && this.#oldest < this.#fields.length) {
      this.#bytes -= sizeOf(this.#fields[this.#oldest] as Field)
      this.#oldest += 1
    }
    if (this.#oldest < this.#fields.length && this.#oldest < 128) return
    this.#fields.splice(0, this.#oldest)
    this.#oldest = 0
  }
}

function sizeOf({ name, value }: Field): number {
  return name.length + value.length + fieldOverhead
}

function fail(problem: string): ConnectionError {
  return new ConnectionError(errorCode.compressionError, `header block: ${problem}`)
}
