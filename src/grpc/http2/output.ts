/** The output of a connection: collects frames and writes them together. */

import type { Socket } from 'node:net'

/** Enough for idle connections, of which there may be many. */
const fewBytes = 1_024
/** Enough for the responses to the requests of one read. */
const defaultBytes = 65_536

/** Frames that wait to be written to one socket. */
export class Output {
  readonly #socket: Socket
  #buffer: Buffer = Buffer.allocUnsafeSlow(fewBytes)
  /** Everything before it is written, or passed to the socket. */
  #start = 0
  #end = 0
  #closed = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** The buffer for frames: `bytes` from the offset of the last `reserve`, until its next call. */
  get buffer(): Buffer {
    return this.#buffer
  }

  /** Reserves this many bytes, all of which the caller must fill; returns their offset. */
  reserve(bytes: number): number {
    if (this.#end + bytes > this.#buffer.length) this.#makeRoom(bytes)
    const at = this.#end
    this.#end += bytes
    return at
  }

  /** Writes all pending frames in one write. */
  flush(): void {
    if (this.#start === this.#end) return
    const frames = this.#buffer.subarray(this.#start, this.#end)
    this.#start = this.#end
    if (this.#closed || !this.#socket.writable) this.#closed = true
    else this.#socket.write(frames)
    // The buffer can be reused, unless the socket could not write all of it at once.
    if (this.#closed || this.#socket.writableLength === 0) {
      this.#start = 0
      this.#end = 0
    }
  }

  /** Bytes that the socket has not written yet. */
  get waiting(): number {
    return this.#socket.writableLength
  }

  #makeRoom(bytes: number): void {
    if (this.#buffer.length >= defaultBytes) this.flush()
    if (this.#end + bytes <= this.#buffer.length) return
    const frames = this.#buffer.subarray(this.#start, this.#end)
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(defaultBytes, frames.length + bytes))
    this.#start = 0
    this.#end = frames.copy(this.#buffer)
  }
}
