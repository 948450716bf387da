/** A stream: one request and its answer (RFC 9113, section 5.1), as the server sees it. */

import {
  ConnectionError,
  errorCode,
  flag,
  frameType,
  headBytes,
  largestWindow,
  putHead,
} from './frames.ts'
import type { FieldList, HpackEncoder } from './hpack-encoder.ts'
import type { Output } from './output.ts'
import { putReset } from './put-frames.ts'
import type { Sender, SendWindow } from './send-window.ts'

/** What a stream's messages go to. */
export interface StreamHandler {
  /** DATA, a part of what was read at once; `last`: the client has said all. */
  data(payload: Buffer, last: boolean): void
  /** The stream is over, answered or not. It is called once, and nothing after it. */
  closed(): void
}

/** What a stream needs of its connection. */
export interface StreamLink {
  readonly output: Output
  readonly encoder: HpackEncoder
  readonly window: SendWindow
  /** The peer's SETTINGS_MAX_FRAME_SIZE. */
  readonly maxFrame: number
  /** Something was put that has to be written soon. */
  wrote(): void
  /** The connection ends with this error. */
  fail(error: ConnectionError): void
  /** The stream is over; `resetByUs` while the client was still sending. */
  streamClosed(stream: Stream, resetByUs: boolean): void
}

const nothing: readonly Buffer[] = []
const deaf: StreamHandler = { data() {}, closed() {} }

export class Stream implements Sender {
  readonly id: number
  readonly #link: StreamLink
  /** Who is told; the connection sets it once the request is known. */
  handler: StreamHandler = deaf
  /** The client has said all. */
  remoteEnded = false
  /** It is over. */
  closed = false
  /** What the client may still send. */
  receiveWindow: number
  /** Bytes of the body that `content-length` promises; -1: it does not say. */
  bodyLeft = -1
  queued = false
  /** What we may still send. */
  #sendWindow: number
  #responded = false
  #ended = false
  /** DATA that waits for a window, and what follows it. */
  #held: readonly Buffer[] = nothing
  #trailers: FieldList | undefined

  constructor(link: StreamLink, id: number, receiveWindow: number, sendWindow: number) {
    this.#link = link
    this.id = id
    this.receiveWindow = receiveWindow
    this.#sendWindow = sendWindow
  }

  /** The answer's header list is sent, or can not be. */
  get responded(): boolean {
    return this.#responded || this.closed
  }

  /** A frame of DATA came, so long with its padding and without. Answers a code of error. */
  receive(size: number, bytes: number, last: boolean): number {
    if (this.remoteEnded) return errorCode.streamClosed
    this.receiveWindow -= size
    if (this.receiveWindow < 0) return errorCode.flowControlError
    this.remoteEnded = last
    if (this.bodyLeft < 0) return errorCode.noError
    this.bodyLeft -= bytes
    const whole = this.bodyLeft === 0
    return this.bodyLeft < 0 || (last && !whole) ? errorCode.protocolError : errorCode.noError
  }

  /** Sends the header list of the answer; `end`: it is all of the answer. */
  respond(fields: FieldList, end = false): void {
    if (this.responded) return
    this.#responded = true
    this.#putFields(fields, end)
    if (end) this.#end()
  }

  /** Sends DATA, in two parts of which copies are kept where they have to wait. */
  write(prefix: Buffer, body: Buffer): void {
    if (this.closed || this.#ended || this.#trailers !== undefined) return
    const { output, window, maxFrame } = this.#link
    const bytes = prefix.length + body.length
    if (
      this.#held.length > 0 ||
      bytes > this.#sendWindow ||
      bytes > window.left ||
      bytes > maxFrame
    ) {
      this.#hold(Buffer.concat([prefix, body]))
      return
    }
    this.#sendWindow -= bytes
    window.spend(bytes)
    let at = output.reserve(headBytes + bytes)
    const { buffer } = output
    at = putHead(buffer, at, bytes, frameType.data, 0, this.id)
    buffer.set(prefix, at)
    buffer.set(body, at + prefix.length)
    this.#link.wrote()
  }

  /** Ends the answer with trailers, once its DATA is sent. */
  finish(trailers: FieldList): void {
    if (this.closed || this.#ended || this.#trailers !== undefined) return
    if (this.#held.length > 0) {
      this.#trailers = trailers
      return
    }
    this.#putFields(trailers, true)
    this.#end()
  }

  /** Ends the stream at once (6.4). */
  reset(code: number): void {
    if (this.closed) return
    putReset(this.#link.output, this.id, code)
    this.#link.wrote()
    this.close(!this.remoteEnded)
  }

  /** The client takes so many more bytes (6.9), or fewer (6.9.2); false beyond what may be. */
  addWindow(bytes: number): boolean {
    this.#sendWindow += bytes
    if (this.#sendWindow > largestWindow) return false
    if (this.#held.length > 0 && this.#sendWindow > 0) this.#link.window.queue(this)
    return true
  }

  sendHeld(): boolean {
    const [first] = this.#held
    if (first === undefined || this.closed) return false
    const { output, window, maxFrame } = this.#link
    const bytes = Math.min(first.length, this.#sendWindow, window.left, maxFrame)
    if (bytes <= 0) return false
    this.#sendWindow -= bytes
    window.spend(bytes)
    window.hold(-bytes)
    const at = output.reserve(headBytes + bytes)
    const { buffer } = output
    first.copy(buffer, putHead(buffer, at, bytes, frameType.data, 0, this.id), 0, bytes)
    this.#link.wrote()
    const rest = this.#held.slice(1)
    this.#held = bytes < first.length ? [first.subarray(bytes), ...rest] : rest
    if (this.#held.length > 0) return this.#sendWindow > 0
    if (this.#trailers !== undefined) {
      this.#putFields(this.#trailers, true)
      this.#end()
    }
    return false
  }

  /** Nothing comes or goes on it any more. */
  close(resetByUs: boolean): void {
    if (this.closed) return
    this.closed = true
    for (const part of this.#held) this.#link.window.hold(-part.length)
    this.#held = nothing
    this.#link.streamClosed(this, resetByUs)
    this.handler.closed()
  }

  #hold(data: Buffer): void {
    if (data.length === 0) return
    const { window } = this.#link
    this.#held = [...this.#held, data]
    if (window.hold(data.length)) {
      if (this.#sendWindow > 0) window.queue(this)
      window.pump()
    } else {
      this.#link.fail(
        new ConnectionError(errorCode.enhanceYourCalm, 'too much of answers is not taken'),
      )
    }
  }

  /** The answer is whole. A client that is still sending is told that nobody listens (8.1). */
  #end(): void {
    this.#ended = true
    if (this.remoteEnded) this.close(false)
    else this.reset(errorCode.noError)
  }

  #putFields(fields: FieldList, end: boolean): void {
    const { output, encoder, maxFrame } = this.#link
    const block = encoder.encode(fields)
    let type: number = frameType.headers
    let flags = end ? flag.endStream : 0
    let from = 0
    do {
      const bytes = Math.min(maxFrame, block.length - from)
      if (from + bytes === block.length) flags |= flag.endHeaders
      const at = output.reserve(headBytes + bytes)
      const { buffer } = output
      block.copy(buffer, putHead(buffer, at, bytes, type, flags, this.id), from, from + bytes)
      from += bytes
      type = frameType.continuation
      flags = 0
    } while (from < block.length)
    this.#link.wrote()
  }
}
