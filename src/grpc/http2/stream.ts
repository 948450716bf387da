/** A stream: one request and its response (RFC 9113, section 5.1), on the server's side. */

import {
  ConnectionError,
  errorCode,
  frameFlag,
  frameHeaderBytes,
  frameType,
  maxWindow,
  putFrameHead,
} from './frames.ts'
import type { FieldList, HpackEncoder } from './hpack-encoder.ts'
import type { Output } from './output.ts'
import type { PeerSettings } from './peer-settings.ts'
import { putReset } from './put-frames.ts'
import type { Sender, SendWindow } from './send-window.ts'

/** Receives a stream's data. */
export interface StreamHandler {
  /** DATA, a slice of the buffer that was read; `last`: the client sends nothing more. */
  data(payload: Buffer, last: boolean): void
  /** The client has not ended its request for a long time. Called repeatedly. */
  overdue(): void
  /** The stream has ended, with or without a response. Called once, as the last call. */
  closed(): void
}

/** The connection, as its session and its streams use it. */
export interface ConnectionLink {
  readonly output: Output
  /** The last GOAWAY is sent. */
  readonly refuses: boolean
  /** Output was added that must be written soon. */
  wrote(): void
  /** Ends the connection with this error. */
  fail(error: ConnectionError): void
}

/** The session, as its streams use it. */
export interface StreamLink {
  readonly connection: ConnectionLink
  readonly encoder: HpackEncoder
  readonly window: SendWindow
  readonly peer: PeerSettings
  /** The stream has ended; `resetByUs`: while the client was still sending. */
  streamClosed(stream: Stream, resetByUs: boolean): void
}

const nothing: readonly Buffer[] = []

/** Ignores the rest of what a client sends. */
export const ignoreStream: StreamHandler = { data() {}, overdue() {}, closed() {} }

export class Stream implements Sender {
  readonly id: number
  readonly #link: StreamLink
  /** Set by the connection once the request is known. */
  handler: StreamHandler = ignoreStream
  /** The client sends nothing more. */
  remoteEnded = false
  /** The stream has ended. */
  closed = false
  /** Bytes that the client may still send. */
  receiveWindow: number
  /** Remaining bytes of the body by `content-length`, or -1 if unknown. */
  bodyLeft = -1
  queued = false
  /** Set by `whenReset`. */
  undo: (() => void) | undefined
  /** Bytes that we may still send. */
  #sendWindow: number
  #responded = false
  #ended = false
  /** DATA that waits for a window, and the trailers after it. */
  #held: readonly Buffer[] = nothing
  #trailers: FieldList | undefined

  constructor(link: StreamLink, id: number, receiveWindow: number, sendWindow: number) {
    this.#link = link
    this.id = id
    this.receiveWindow = receiveWindow
    this.#sendWindow = sendWindow
  }

  /** The response's header list has been sent, or cannot be. */
  get responded(): boolean {
    return this.#responded || this.closed
  }

  /**
   * Calls `undo` if the stream ends without a whole response, or the client resets it just after the response was sent:
   * then it has not read it. At once if the stream is closed already.
   */
  whenReset(undo: () => void): void {
    const { undo: earlier } = this
    if (this.closed) undo()
    else if (earlier === undefined) this.undo = undo
    else
      this.undo = () => {
        earlier()
        undo()
      }
  }

  /** Calls `undo` now: what it undoes is not part of the response. */
  takeBack(): void {
    const { undo } = this
    this.undo = undefined
    undo?.()
  }

  /** A DATA frame has arrived; its length with and without padding. Returns an error code. */
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

  /** Sends the response's header list; `end`: it is the whole response. */
  respond(fields: FieldList, end = false): void {
    if (this.responded) return
    this.#responded = true
    this.#putFields(fields, end)
    if (end) this.#end()
  }

  /** Sends DATA in two parts, which are copied if they have to wait. */
  write(prefix: Buffer, body: Buffer): void {
    if (this.closed || this.#ended || this.#trailers !== undefined) return
    const { connection, window, peer } = this.#link
    const { output } = connection
    const bytes = prefix.length + body.length
    if (
      this.#held.length > 0 ||
      bytes > this.#sendWindow ||
      bytes > window.left ||
      bytes > peer.maxFrame
    ) {
      this.#hold(Buffer.concat([prefix, body]))
      return
    }
    this.#sendWindow -= bytes
    window.spend(bytes)
    let at = output.reserve(frameHeaderBytes + bytes)
    const { buffer } = output
    at = putFrameHead(buffer, at, bytes, frameType.data, 0, this.id)
    buffer.set(prefix, at)
    buffer.set(body, at + prefix.length)
    connection.wrote()
  }

  /** Ends the response with trailers, after its DATA. */
  finish(trailers: FieldList): void {
    if (this.closed || this.#ended || this.#trailers !== undefined) return
    if (this.#held.length > 0) {
      this.#trailers = trailers
      return
    }
    this.#putFields(trailers, true)
    this.#end()
  }

  /** Resets the stream (6.4). */
  reset(code: number): void {
    if (this.closed) return
    const { connection } = this.#link
    putReset(connection.output, this.id, code)
    connection.wrote()
    this.close(!this.remoteEnded)
  }

  /** The client has extended the window (6.9) or reduced it (6.9.2); false above the maximum. */
  addWindow(bytes: number): boolean {
    this.#sendWindow += bytes
    if (this.#sendWindow > maxWindow) return false
    if (this.#held.length > 0 && this.#sendWindow > 0) this.#link.window.queue(this)
    return true
  }

  sendHeld(): boolean {
    const [first] = this.#held
    if (first === undefined || this.closed) return false
    const { connection, window, peer } = this.#link
    const { output } = connection
    const bytes = Math.min(first.length, this.#sendWindow, window.left, peer.maxFrame)
    if (bytes <= 0) return false
    this.#sendWindow -= bytes
    window.spend(bytes)
    window.hold(-bytes)
    const at = output.reserve(frameHeaderBytes + bytes)
    const { buffer } = output
    first.copy(buffer, putFrameHead(buffer, at, bytes, frameType.data, 0, this.id), 0, bytes)
    connection.wrote()
    const rest = this.#held.slice(1)
    this.#held = bytes < first.length ? [first.subarray(bytes), ...rest] : rest
    if (this.#held.length > 0) return this.#sendWindow > 0
    if (this.#trailers !== undefined) {
      this.#putFields(this.#trailers, true)
      this.#end()
    }
    return false
  }

  /** Ends the stream in both directions. */
  close(resetByUs: boolean): void {
    if (this.closed) return
    this.closed = true
    for (const part of this.#held) this.#link.window.hold(-part.length)
    this.#held = nothing
    // If the connection ends later, the client may have read the response, and acts on it.
    if (!this.#ended) this.takeBack()
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
      this.#link.connection.fail(
        new ConnectionError(errorCode.enhanceYourCalm, 'too much of answers is not taken'),
      )
    }
  }

  /** The response is complete. Resets a client that is still sending, without error (8.1). */
  #end(): void {
    this.#ended = true
    if (this.remoteEnded) this.close(false)
    else this.reset(errorCode.noError)
  }

  #putFields(fields: FieldList, end: boolean): void {
    const { connection, encoder, peer } = this.#link
    const { output } = connection
    const block = encoder.encode(fields)
    let type: number = frameType.headers
    let flags = end ? frameFlag.endStream : 0
    let from = 0
    do {
      const bytes = Math.min(peer.maxFrame, block.length - from)
      if (from + bytes === block.length) flags |= frameFlag.endHeaders
      const at = output.reserve(frameHeaderBytes + bytes)
      const { buffer } = output
      block.copy(buffer, putFrameHead(buffer, at, bytes, type, flags, this.id), from, from + bytes)
      from += bytes
      type = frameType.continuation
      flags = 0
    } while (from < block.length)
    connection.wrote()
  }
}
