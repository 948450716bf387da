/**
 * A reader and a writer for the protobuf wire format (protobuf.dev, "Encoding"), limited to what
 * our few messages need. The request path goes from bytes to bytes through these two, so nothing
 * unused is allocated; tests compare them with Envoy's own proto files.
 */

/** Wire types: how the bytes after a tag are laid out. */
export const wireType = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const

const none: readonly string[] = []

/** Tags of the key and the value of a map entry: fields 1 and 2, both strings. */
const entryKey = 0x0a
const entryValue = 0x12

/** Strings up to this many characters are written by a loop. */
const maxLoop = 48
/** A writer that is reused retains at most this many bytes. */
const maxKept = 65_536

/** Thrown for bytes that are not a protobuf message; the server returns INVALID_ARGUMENT. */
export class WireError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'WireError'
  }
}

/**
 * Iterates over the fields of a message: `while (reader.next()) switch (reader.field) …`. The next
 * `next()` skips a field that was not read.
 */
export class WireReader {
  readonly #buffer: Buffer
  #at = 0
  #end: number
  #pending = false
  /** Number of the current field. */
  field = 0
  /** Its wire type. */
  type = 0

  constructor(buffer: Buffer) {
    this.#buffer = buffer
    this.#end = buffer.length
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

  /** The current field as a string; an ASCII string in `known` is reused instead of allocated. */
  string(known: readonly string[] = none): string {
    const start = this.#step()
    for (const text of known) if (this.#holds(start, text)) return text
    return this.#buffer.toString('utf8', start, this.#at)
  }

  /** The current field as a whole number of at most 15 ASCII digits; undefined for any other. */
  digits(): number | undefined {
    const start = this.#step()
    if (start === this.#at || this.#at - start > 15) return undefined
    let value = 0
    for (let at = start; at < this.#at; at += 1) {
      const digit = (this.#buffer[at] as number) - 0x30
      if (digit < 0 || digit > 9) return undefined
      value = value * 10 + digit
    }
    return value
  }

  /** The one of these ASCII strings that the current field equals; undefined for any other. */
  oneOf(known: readonly string[]): string | undefined {
    const start = this.#step()
    for (const text of known) if (this.#holds(start, text)) return text
    return undefined
  }

  /**
   * Skips the current field if it is an entry of a map of strings in the usual encoding, with only
   * key and value, and its key has none of these lengths (below 32, as bits). Returns false if it
   * may be another entry, which must then be read.
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

  /**
   * Continues with the fields of the current field, a message: `next()` is false at its end.
   * `leave` with the returned value continues after it, however much of it was read.
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

  /** The current field as an unsigned integer; beyond 2^53 it loses precision. */
  unsigned(): number {
    this.#expect(wireType.varint)
    return this.#varint()
  }

  /** Skips a length-delimited field and returns the offset of its content. */
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

/** Builds one message. Nested messages are written in place, and their length is set afterwards. */
export class WireWriter {
  #buffer: Buffer
  #at = 0

  constructor(capacity = 512) {
    this.#buffer = Buffer.allocUnsafe(capacity)
  }

  /** A string field, also if empty, because some oneofs and map entries need it. */
  string(field: number, text: string): this {
    const lengthBytes = varintSize(text.length)
    const start = this.open(field, lengthBytes)
    return this.text(text).close(start, lengthBytes)
  }

  /**
   * A message with two fields: 1, a message of two strings (1 and 2), and 3, a small number. As `message`, `string` and `unsigned`
   * write it, in less time, because its lengths are known before. false: it is too long for that or not ASCII, and nothing is written.
   */
  shortPair(field: number, first: string, second: string, value: number): boolean {
    const length = first.length + second.length + 4
    if (length > 0x7b || field > 0xf || value > 0x7f) return false
    this.#reserve(length + 6)
    const start = this.#at
    const buffer = this.#buffer
    buffer[start] = field * 8 + wireType.bytes
    buffer[start + 1] = length + 4
    buffer[start + 2] = 8 + wireType.bytes
    buffer[start + 3] = length
    buffer[start + 4] = 8 + wireType.bytes
    buffer[start + 5] = first.length
    this.#at = start + 6
    if (this.#ascii(first)) {
      buffer[this.#at] = 16 + wireType.bytes
      buffer[this.#at + 1] = second.length
      this.#at += 2
      if (this.#ascii(second)) {
        buffer[this.#at] = 24 + wireType.varint
        buffer[this.#at + 1] = value
        this.#at += 2
        return true
      }
    }
    this.#at = start
    return false
  }

  /** The text itself, of a string field that is open. */
  text(text: string): this {
    // UTF-8 needs at most three bytes per UTF-16 unit.
    this.#reserve(text.length * 3)
    if (!this.#ascii(text)) this.#at += this.#buffer.write(text, this.#at, 'utf8')
    return this
  }

  /** A nested message; `body` writes it into this writer. */
  message(field: number, body: (writer: this) => void): this {
    const start = this.open(field)
    body(this)
    return this.close(start)
  }

  /**
   * Begins a nested message; `close` with the returned value ends it. `lengthBytes`: the expected
   * size of its length; a wrong guess moves the message.
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

  /** Fields that are already encoded. */
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

  /** The message; the writer must not be used afterwards. */
  finish(): Buffer {
    return this.#buffer.subarray(0, this.#at)
  }

  /** A copy of the message; the writer can begin the next one. */
  take(): Buffer {
    const message = Buffer.allocUnsafe(this.#at)
    message.set(this.#buffer.subarray(0, this.#at))
    this.clear()
    return message
  }

  /** Discards the message, so that another can begin. */
  clear(): void {
    this.#at = 0
    if (this.#buffer.length > maxKept) this.#buffer = Buffer.allocUnsafe(maxKept)
  }

  #tag(field: number, type: number): void {
    this.#varint(field * 8 + type)
  }

  /** Writes a short ASCII string, for which a call out of JavaScript costs more than a loop. */
  #ascii(text: string): boolean {
    const { length } = text
    if (length > maxLoop) return false
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

/** The end of a varint of one or two bytes that begins here; 0 for a longer one. */
function shortEnd(buffer: Buffer, at: number): number {
  if ((buffer[at] as number) < 0x80) return at + 1
  return (buffer[at + 1] as number) < 0x80 ? at + 2 : 0
}

function shortLength(buffer: Buffer, at: number, end: number): number {
  const low = buffer[at] as number
  return end === at + 1 ? low : (low & 0x7f) + (buffer[at + 1] as number) * 0x80
}

/** The bytes of the length of a message with this much in it. */
export function varintSize(value: number): number {
  let size = 1
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) size += 1
  return size
}
