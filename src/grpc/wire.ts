/**
 * A reader and a writer for the protobuf wire format (protobuf.dev, "Encoding"), as much of it as
 * the few messages we speak need. The request path goes from bytes to bytes through these two, so
 * nothing is built that is not used; tests hold them against Envoy's own proto files.
 */

/** Wire types: how the bytes after a tag are laid out. */
export const wireType = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const

const none: readonly string[] = []

/** Tags of the key and the value of a map entry: fields 1 and 2, both strings. */
const entryKey = 0x0a
const entryValue = 0x12

/** Up to so many characters a string is written by a loop. */
const longestLoop = 48
/** A writer that goes on to the next message keeps no more bytes than this. */
const mostKept = 65_536

/** Thrown for bytes that are no protobuf message; the edge answers INVALID_ARGUMENT. */
export class WireError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'WireError'
  }
}

/**
 * Walks the fields of a message: `while (reader.next()) switch (reader.field) …`. A field that is
 * not read is skipped by the next `next()`.
 */
export class WireReader {
  readonly #buffer: Buffer
  #at: number
  #end: number
  #pending = false
  /** Number of the current field. */
  field = 0
  /** Its wire type. */
  type = 0

  constructor(buffer: Buffer, start = 0, end = buffer.length) {
    this.#buffer = buffer
    this.#at = start
    this.#end = end
  }

  /** Moves to the next field; false at the end of the message. */
  next(): boolean {
    if (this.#pending) this.#skip()
    if (this.#at >= this.#end) return false
    const tag = this.#varint()
    this.field = tag >>> 3
    this.type = tag & 7
    if (this.field === 0) throw new WireError('field number 0')
    this.#pending = true
    return true
  }

  /** The current field as a string; one that is `known`, in ASCII, is not made anew. */
  string(known: readonly string[] = none): string {
    const start = this.#step()
    for (const text of known) if (this.#holds(start, text)) return text
    return this.#buffer.toString('utf8', start, this.#at)
  }

  /** The one of these, in ASCII, that the current field is; undefined for any other string. */
  oneOf(known: readonly string[]): string | undefined {
    const start = this.#step()
    for (const text of known) if (this.#holds(start, text)) return text
    return undefined
  }

  /**
   * Steps over the current field where it is an entry of a map of strings as all encoders write it,
   * key and value and nothing else, with a key of none of these lengths (below 32, as bits). Answers
   * false where it may be another, which is then still to be read.
   */
  skipEntry(keyLengths: number): boolean {
    if (this.type !== wireType.bytes) return false
    const buffer = this.#buffer
    const start = this.#at
    const begin = shortEnd(buffer, start)
    if (begin === 0) return false
    const end = begin + shortLength(buffer, start, begin)
    const keyLength = buffer[begin + 1] as number
    const value = begin + 2 + keyLength
    if (end > this.#end || value >= end || buffer[begin] !== entryKey) return false
    if (keyLength >= 0x20 ? keyLength >= 0x80 : (keyLengths >>> keyLength) & 1) return false
    const text = buffer[value] === entryValue ? shortEnd(buffer, value + 1) : 0
    if (text === 0 || text + shortLength(buffer, value + 1, text) !== end) return false
    this.#at = end
    this.#pending = false
    return true
  }

  /** The current field as a message of its own. */
  message(): WireReader {
    const start = this.#step()
    return new WireReader(this.#buffer, start, this.#at)
  }

  /**
   * Goes on with the fields of the current one, a message: `next()` is false at its end, and `leave`
   * of what this answers goes on behind it, however much of it was read.
   */
  enter(): number {
    const start = this.#step()
    const outerEnd = this.#end
    this.#end = this.#at
    this.#at = start
    return outerEnd
  }

  leave(outerEnd: number): void {
    this.#at = this.#end
    this.#end = outerEnd
    this.#pending = false
  }

  /** The current field as an unsigned integer; beyond 2^53 it loses its last digits. */
  unsigned(): number {
    this.#expect(wireType.varint)
    return this.#varint()
  }

  /** The current field as a double. */
  double(): number {
    this.#expect(wireType.fixed64)
    this.#need(8)
    const value = this.#buffer.readDoubleLE(this.#at)
    this.#at += 8
    return value
  }

  /** Steps over a length-delimited field and answers where its content starts. */
  #step(): number {
    this.#expect(wireType.bytes)
    const length = this.#varint()
    this.#need(length)
    const start = this.#at
    this.#at += length
    return start
  }

  #holds(start: number, text: string): boolean {
    const { length } = text
    if (length !== this.#at - start) return false
    for (let i = 0; i < length; i += 1) {
      if (this.#buffer[start + i] !== text.charCodeAt(i)) return false
    }
    return true
  }

  #expect(type: number): void {
    if (this.type !== type) throw new WireError(`field ${this.field} has wire type ${this.type}`)
    this.#pending = false
  }

  #need(bytes: number): void {
    if (bytes > this.#end - this.#at) throw new WireError('message is cut short')
  }

  #skip(): void {
    this.#pending = false
    if (this.type === wireType.bytes) {
      const length = this.#varint()
      this.#need(length)
      this.#at += length
    } else if (this.type === wireType.varint) {
      this.#varint()
    } else if (this.type === wireType.fixed64 || this.type === wireType.fixed32) {
      const length = this.type === wireType.fixed64 ? 8 : 4
      this.#need(length)
      this.#at += length
    } else {
      throw new WireError(`wire type ${this.type}`)
    }
  }

  #varint(): number {
    let value = 0
    let scale = 1
    for (let i = 0; i < 10; i += 1) {
      if (this.#at >= this.#end) throw new WireError('message is cut short')
      const byte = this.#buffer[this.#at] as number
      this.#at += 1
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 0x80
    }
    throw new WireError('varint is too long')
  }
}

/** Builds one message; nested messages are written in place and their length set afterwards. */
export class WireWriter {
  #buffer: Buffer
  #at = 0

  constructor(capacity = 512) {
    this.#buffer = Buffer.allocUnsafe(capacity)
  }

  /** A string field; empty strings too, since some oneofs and map entries need them. */
  string(field: number, text: string): this {
    // UTF-8 needs at most three bytes for each UTF-16 unit.
    this.#reserve(text.length * 3 + 10)
    this.#tag(field, wireType.bytes)
    this.#at += 1
    const start = this.#at
    if (!this.#ascii(text)) this.#at += this.#buffer.write(text, this.#at, 'utf8')
    return this.close(start)
  }

  /** A nested message, written by `body` into this same writer. */
  message(field: number, body: (writer: this) => void): this {
    const start = this.open(field)
    body(this)
    return this.close(start)
  }

  /**
   * Begins a nested message, which `close` of what this answers ends. `lengthBytes`: what its length
   * is likely to take; a wrong guess costs a move of the message.
   */
  open(field: number, lengthBytes = 1): number {
    this.#reserve(16)
    this.#tag(field, wireType.bytes)
    this.#at += lengthBytes
    return this.#at
  }

  close(start: number, lengthBytes = 1): this {
    const length = this.#at - start
    const more = varintSize(length) - lengthBytes
    if (more !== 0) {
      this.#reserve(Math.max(0, more))
      this.#buffer.copyWithin(start + more, start, this.#at)
    }
    this.#at = start - lengthBytes
    this.#varint(length)
    this.#at += length
    return this
  }

  /** Fields that were written before. */
  raw(fields: Buffer): this {
    this.#reserve(fields.length)
    this.#buffer.set(fields, this.#at)
    this.#at += fields.length
    return this
  }

  /** An unsigned integer, enum or (0 or 1) bool field. */
  unsigned(field: number, value: number): this {
    this.#reserve(16)
    this.#tag(field, wireType.varint)
    this.#varint(value)
    return this
  }

  /** A double field. */
  double(field: number, value: number): this {
    this.#reserve(16)
    this.#tag(field, wireType.fixed64)
    this.#at = this.#buffer.writeDoubleLE(value, this.#at)
    return this
  }

  /** The message so far; the writer is not to be used afterwards. */
  finish(): Buffer {
    return this.#buffer.subarray(0, this.#at)
  }

  /** A copy of the message so far; the writer begins the next one. */
  take(): Buffer {
    const message = Buffer.allocUnsafe(this.#at)
    message.set(this.#buffer.subarray(0, this.#at))
    this.clear()
    return message
  }

  /** Drops what was written, to begin another message. */
  clear(): void {
    this.#at = 0
    if (this.#buffer.length > mostKept) this.#buffer = Buffer.allocUnsafe(mostKept)
  }

  #tag(field: number, type: number): void {
    this.#varint(field * 8 + type)
  }

  /** Writes a short string of ASCII, for which a call out of JavaScript costs more than a loop. */
  #ascii(text: string): boolean {
    const { length } = text
    if (length > longestLoop) return false
    const buffer = this.#buffer
    const at = this.#at
    for (let i = 0; i < length; i += 1) {
      const code = text.charCodeAt(i)
      if (code > 0x7f) return false
      buffer[at + i] = code
    }
    this.#at = at + length
    return true
  }

  #varint(value: number): void {
    let rest = value
    while (rest > 0x7f) {
      this.#buffer[this.#at] = (rest % 0x80) | 0x80
      this.#at += 1
      rest = Math.floor(rest / 0x80)
    }
    this.#buffer[this.#at] = rest
    this.#at += 1
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return
    const grown = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#at + bytes))
    this.#buffer.copy(grown, 0, 0, this.#at)
    this.#buffer = grown
  }
}

/** Where a varint of one or two bytes ends that begins here; 0 for a longer one. */
function shortEnd(buffer: Buffer, at: number): number {
  if ((buffer[at] as number) < 0x80) return at + 1
  return (buffer[at + 1] as number) < 0x80 ? at + 2 : 0
}

function shortLength(buffer: Buffer, at: number, end: number): number {
  const low = buffer[at] as number
  return end === at + 1 ? low : (low & 0x7f) + (buffer[at + 1] as number) * 0x80
}

function varintSize(value: number): number {
  let size = 1
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) size += 1
  return size
}
