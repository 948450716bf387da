/** Splits a socket's data into frames, wherever it is cut (RFC 9113, 3.4 and 4.1). */

import {
  ConnectionError,
  defaultFrameSize,
  errorCode,
  frameHeaderBytes,
  preface,
  readUint31,
} from './frames.ts'
import type { Session } from './session.ts'

const nothing = Buffer.alloc(0)

/** The reader of a connection, starting with the client's preface. */
export class FrameReader {
  readonly #session: Session
  #greeted = 0
  /** The beginning of an incomplete frame; has the frame's size once its head is known. */
  #torn: Buffer = nothing
  #have = 0
  #stopped = false

  /** Each frame is passed to the session. */
  constructor(session: Session) {
    this.#session = session
  }

  /** The client has sent its preface. */
  get greeted(): boolean {
    return this.#greeted === preface.length
  }

  /** Delivers no more frames, not even those already read. */
  stop(): void {
    this.#stopped = true
    this.#torn = nothing
    this.#have = 0
  }

  /** Processes data. Throws a ConnectionError if it is not HTTP/2. */
  push(data: Buffer): void {
    let at = this.greeted ? 0 : this.#greet(data)
    while (at < data.length && !this.#stopped) {
      if (this.#have > 0) {
        at = this.#complete(data, at)
        continue
      }
      const left = data.length - at
      const size = left < frameHeaderBytes ? frameHeaderBytes : this.#sizeOf(data, at)
      if (size > left) {
        this.#torn = Buffer.allocUnsafe(size)
        this.#have = data.copy(this.#torn, 0, at)
        return
      }
      this.#take(data, at, at + size)
      at += size
    }
  }

  /** Completes the partial frame; returns where in `data` the next one begins. */
  #complete(data: Buffer, at: number): number {
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
        // The head is complete now, so the frame's size is known.
        this.#torn = Buffer.allocUnsafe(size)
        torn.copy(this.#torn)
      }
    }
    return at + added
  }

  #take(buffer: Buffer, at: number, end: number): void {
    const type = buffer[at + 3] as number
    const flags = buffer[at + 4] as number
    this.#session.take(type, flags, readUint31(buffer, at + 5), buffer, at + frameHeaderBytes, end)
  }

  /** The size of a frame with its head. */
  #sizeOf(buffer: Buffer, at: number): number {
    const length = buffer.readUIntBE(at, 3)
    if (length <= defaultFrameSize) return frameHeaderBytes + length
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
