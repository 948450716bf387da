/** Cuts what a socket brings into frames, wherever it is torn (RFC 9113, 3.4 and 4.1). */

import { ConnectionError, errorCode, headBytes, preface, readUint31 } from './frames.ts'

/** Takes a frame; its payload stands in `buffer` from `start` to `end`. */
export type OnFrame = (
  type: number,
  flags: number,
  stream: number,
  buffer: Buffer,
  start: number,
  end: number,
) => void

const nothing = Buffer.alloc(0)

/** The reader of a connection, from the client's preface on. */
export class FrameReader {
  readonly #maxPayload: number
  readonly #onFrame: OnFrame
  #greeted = 0
  /** The beginning of a frame whose end has not come: as long as the frame once its head is known. */
  #torn: Buffer = nothing
  #have = 0
  #stopped = false

  constructor(maxPayload: number, onFrame: OnFrame) {
    this.#maxPayload = maxPayload
    this.#onFrame = onFrame
  }

  /** The client has said its preface. */
  get greeted(): boolean {
    return this.#greeted === preface.length
  }

  /** Takes no frame any more, not even of what is being read. */
  stop(): void {
    this.#stopped = true
    this.#torn = nothing
    this.#have = 0
  }

  /** Reads on. Throws a ConnectionError for what is not HTTP/2. */
  push(data: Buffer): void {
    let at = this.greeted ? 0 : this.#greet(data)
    while (at < data.length && !this.#stopped) {
      if (this.#have > 0) {
        at = this.#mend(data, at)
        continue
      }
      const left = data.length - at
      const size = left < headBytes ? headBytes : this.#sizeOf(data, at)
      if (size > left) {
        this.#torn = Buffer.allocUnsafe(size)
        this.#have = data.copy(this.#torn, 0, at)
        return
      }
      this.#take(data, at, at + size)
      at += size
    }
  }

  /** Adds to the torn frame and answers where in `data` what is not of it begins. */
  #mend(data: Buffer, at: number): number {
    const torn = this.#torn
    const added = data.copy(torn, this.#have, at)
    this.#have += added
    if (this.#have === torn.length) {
      const size = this.#sizeOf(torn, 0)
      if (torn.length === size) {
        this.#torn = nothing
        this.#have = 0
        this.#take(torn, 0, size)
      } else {
        // Only its head was known to be missing.
        this.#torn = Buffer.allocUnsafe(size)
        torn.copy(this.#torn)
      }
    }
    return at + added
  }

  #take(buffer: Buffer, at: number, end: number): void {
    const type = buffer[at + 3] as number
    const flags = buffer[at + 4] as number
    this.#onFrame(type, flags, readUint31(buffer, at + 5), buffer, at + headBytes, end)
  }

  /** Of a frame with its head. */
  #sizeOf(buffer: Buffer, at: number): number {
    const length = buffer.readUIntBE(at, 3)
    if (length <= this.#maxPayload) return headBytes + length
    throw new ConnectionError(errorCode.frameSizeError, `frame of ${length} bytes`)
  }

  #greet(data: Buffer): number {
    const length = Math.min(preface.length - this.#greeted, data.length)
    const expected = preface.subarray(this.#greeted, this.#greeted + length)
    if (data.compare(expected, 0, length, 0, length) !== 0) {
      throw new ConnectionError(errorCode.protocolError, 'this is not HTTP/2')
    }
    this.#greeted += length
    return length
  }
}
