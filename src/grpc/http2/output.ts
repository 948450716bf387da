/** What goes out on a connection: frames are put one after another and written together. */

import type { Socket } from 'node:net'

/** Enough for who asks seldom: many connections are idle. */
const fewBytes = 1_024
/** Enough for the answers to what one read brings. */
const usualBytes = 65_536

/** The frames that wait to be written to one socket. */
export class Output {
  readonly #socket: Socket
  #buffer: Buffer = Buffer.allocUnsafeSlow(fewBytes)
  /** What stands before this is written, or the socket's to write. */
  #start = 0
  #end = 0
  #closed = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** Where frames are put: `bytes` of `reserve` from `at` on, until the next call of it. */
  get buffer(): Buffer {
    return this.#buffer
  }

  /** Makes room for so many bytes, all of which the caller fills, and answers where they begin. */
  reserve(bytes: number): number {
    if (this.#end + bytes > this.#buffer.length) this.#makeRoom(bytes)
    const at = this.#end
    this.#end += bytes
    return at
  }

  /** Writes all that was put, in one write. */
  flush(): void {
    if (this.#start === this.#end) return
    const frames = this.#buffer.subarray(this.#start, this.#end)
    this.#start = this.#end
    if (this.#closed || !this.#socket.writable) this.#closed = true
    else this.#socket.write(frames)
    // Nothing is the socket's any more, unless it could not write all of it at once.
    if (this.#closed || this.#socket.writableLength === 0) {
      this.#start = 0
      this.#end = 0
    }
  }

  /** Bytes that the socket could not pass on yet. */
  get waiting(): number {
    return this.#socket.writableLength
  }

  #makeRoom(bytes: number): void {
    if (this.#buffer.length >= usualBytes) this.flush()
    if (this.#end + bytes <= this.#buffer.length) return
    const frames = this.#buffer.subarray(this.#start, this.#end)
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(usualBytes, frames.length + bytes))
    this.#start = 0
    this.#end = frames.copy(this.#buffer)
  }
}
