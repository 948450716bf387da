/** The streams of a connection: open ones, limits, and frames for streams that are not open. */

import { BoundedMap } from '../../runtime/bounded-map.ts'
import { Budget } from './budget.ts'
import { ConnectionError, errorCode, readUint31 } from './frames.ts'
import { HeaderBlocks } from './header-blocks.ts'
import { HpackDecoder } from './hpack-decoder.ts'
import type { ConnectionLimits } from './limits.ts'
import { putReset, putWindowUpdate } from './put-frames.ts'
import { RequestHead } from './request-head.ts'
import { Stream, type StreamHandler, type StreamLink } from './stream.ts'

/** Handles a request. */
type Open = (stream: Stream, head: RequestHead) => StreamHandler

export interface StreamsOptions {
  readonly link: StreamLink
  readonly limits: ConnectionLimits
  /** Called for each request; returns its handler. */
  readonly open: Open
  /** Called for exceptions of our own code. */
  readonly onFault: (error: unknown) => void
}

const nothing = Buffer.alloc(0)
/** Maximum number of ended streams whose late reset is awaited. */
const maxUnread = 2_048
/** Maximum number of streams that are remembered as reset by us. */
const maxReset = 8_192

export class Streams {
  readonly #link: StreamLink
  readonly #limits: ConnectionLimits
  readonly #open: Open
  readonly #onFault: (error: unknown) => void
  readonly #streams = new Map<number, Stream>()
  readonly #decoder = new HpackDecoder()
  readonly blocks: HeaderBlocks
  readonly #resets: Budget
  /** Reset by us; frames that the client sent before it received the reset are no errors (5.1). */
  readonly #reset = new BoundedMap<number, true>(maxReset)
  /** Called if the client resets a stream that has ended, which means that it had not read the response. */
  readonly #unread = new BoundedMap<number, () => void>(maxUnread)
  /** The highest id that the client has opened, now and at the last call of `remind`. */
  #last = 0
  #reminded = 0

  constructor({ link, limits, open, onFault }: StreamsOptions) {
    this.#link = link
    this.#limits = limits
    this.#open = open
    this.#onFault = onFault
    this.blocks = new HeaderBlocks(limits, (stream, last, circular, buffer, start, end) =>
      this.#onBlock(stream, last, circular, buffer, start, end),
    )
    this.#resets = new Budget(limits.resets, performance.now())
  }

  get size(): number {
    return this.#streams.size
  }

  get last(): number {
    return this.#last
  }

  onHeaders(flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    // Clients open streams with odd ids (5.1.1).
    if (id % 2 === 0) throw new ConnectionError(errorCode.protocolError, `HEADERS on stream ${id}`)
    this.blocks.begin(id, flags, buffer, start, end)
  }

  /** `size` is the size of the frame with padding; the data is `buffer` from `start` to `end`. */
  onData(
    id: number,
    last: boolean,
    size: number,
    buffer: Buffer,
    start: number,
    end: number,
  ): void {
    const stream = this.#find(id)
    if (stream === undefined) {
      if (!this.#reset.has(id)) this.#refuse(id, errorCode.streamClosed, last)
      else if (last) this.#reset.delete(id)
      return
    }
    const error = stream.receive(size, end - start, last)
    if (error !== errorCode.noError) {
      this.#fail(stream, error)
      return
    }
    this.#deliver(stream, buffer.subarray(start, end), last)
    const { streamWindow } = this.#limits
    if (last || stream.closed || stream.receiveWindow * 2 > streamWindow) return
    putWindowUpdate(this.#link.connection.output, id, streamWindow - stream.receiveWindow)
    stream.receiveWindow = streamWindow
  }

  onReset(id: number, size: number): void {
    if (size !== 4) throw new ConnectionError(errorCode.frameSizeError, 'length of RST_STREAM')
    const stream = this.#find(id)
    this.#chargeReset()
    this.#reset.delete(id)
    stream?.close(false)
    const undo = this.#unread.get(id)
    if (undo === undefined) return
    this.#unread.delete(id)
    undo()
  }

  /** Priorities are not used (RFC 9113, 5.3.2); valid ones are ignored. */
  onPriority(id: number, buffer: Buffer, start: number, end: number): void {
    if (id === 0) throw new ConnectionError(errorCode.protocolError, 'PRIORITY on stream 0')
    if (end - start !== 5) this.#failAny(id, errorCode.frameSizeError)
    else if (readUint31(buffer, start) === id) this.#failAny(id, errorCode.protocolError)
  }

  onWindowUpdate(id: number, increment: number): void {
    const stream = this.#find(id)
    if (stream === undefined) return
    if (increment === 0) this.#fail(stream, errorCode.protocolError)
    else if (!stream.addWindow(increment)) this.#fail(stream, errorCode.flowControlError)
  }

  /** The initial window of every stream changes (6.9.2). */
  addWindows(bytes: number): void {
    for (const stream of this.#streams.values()) {
      if (stream.addWindow(bytes)) continue
      throw new ConnectionError(errorCode.flowControlError, `window of stream ${stream.id}`)
    }
  }

  /** A stream has ended; `resetByUs`: while the client was still sending. */
  forget(stream: Stream, resetByUs: boolean): void {
    this.#streams.delete(stream.id)
    if (resetByUs) this.#reset.set(stream.id, true)
    if (stream.undo !== undefined) this.#unread.set(stream.id, stream.undo)
  }

  /**
   * Called at intervals: tells the handlers of unfinished requests that are older than the last
   * call. A timer for each stream would cost every Check.
   */
  remind(): void {
    const before = this.#reminded
    this.#reminded = this.#last
    for (const stream of this.#streams.values()) {
      // They are in the order of their ids.
      if (stream.id > before) return
      if (!stream.remoteEnded) stream.handler.overdue()
    }
  }

  /** Ends all streams: the connection is gone. */
  close(): void {
    for (const stream of this.#streams.values()) stream.close(false)
  }

  #onBlock(
    id: number,
    last: boolean,
    circular: boolean,
    buffer: Buffer,
    start: number,
    end: number,
  ): void {
    const head = new RequestHead(this.#limits.head)
    // Decodes the block even if it is refused: later blocks depend on its table entries.
    this.#decoder.decode(buffer, start, end, head)
    const stream = this.#streams.get(id)
    if (stream !== undefined) this.#onTrailers(stream, head, last)
    else if (id > this.#last) this.#begin(id, head, last, circular)
    else if (!this.#reset.has(id)) {
      throw new ConnectionError(errorCode.streamClosed, `HEADERS on stream ${id}, which is closed`)
    }
  }

  #begin(id: number, head: RequestHead, last: boolean, circular: boolean): void {
    this.#last = id
    const { connection, peer } = this.#link
    if (connection.refuses || this.#streams.size >= this.#limits.streams) {
      this.#refuse(id, errorCode.refusedStream, last)
    } else if (head.tooLong) {
      this.#refuse(id, errorCode.enhanceYourCalm, last)
    } else if (circular || !head.isRequest || (last && head.contentLength > 0)) {
      this.#refuse(id, errorCode.protocolError, last)
    } else {
      const stream = new Stream(this.#link, id, this.#limits.streamWindow, peer.initialWindow)
      stream.remoteEnded = last
      stream.bodyLeft = head.contentLength
      this.#streams.set(id, stream)
      stream.handler = this.#open(stream, head)
      if (last) this.#deliver(stream, nothing, true)
    }
  }

  /** A second header list ends the request (8.1). */
  #onTrailers(stream: Stream, head: RequestHead, last: boolean): void {
    if (stream.remoteEnded) this.#fail(stream, errorCode.streamClosed)
    else if (head.tooLong) this.#fail(stream, errorCode.enhanceYourCalm)
    else if (!last || !head.isTrailers || stream.bodyLeft > 0) {
      this.#fail(stream, errorCode.protocolError)
    } else {
      stream.remoteEnded = true
      this.#deliver(stream, nothing, true)
    }
  }

  #deliver(stream: Stream, data: Buffer, last: boolean): void {
    if (stream.closed) return
    try {
      stream.handler.data(data, last)
    } catch (error) {
      this.#onFault(error)
      stream.reset(errorCode.internalError)
    }
  }

  /** The stream with this id, if it is open. Frames for a stream that was never opened are an error (5.1). */
  #find(id: number): Stream | undefined {
    if (id === 0 || id % 2 === 0 || id > this.#last) {
      throw new ConnectionError(errorCode.protocolError, `frame on stream ${id}, which is idle`)
    }
    return this.#streams.get(id)
  }

  /** A stream error of the client (5.4.2). */
  #fail(stream: Stream, code: number): void {
    this.#chargeReset()
    stream.reset(code)
  }

  #failAny(id: number, code: number): void {
    const stream = this.#streams.get(id)
    if (stream === undefined) this.#refuse(id, code, true)
    else this.#fail(stream, code)
  }

  /** Resets a stream that is not open. */
  #refuse(id: number, code: number, last: boolean): void {
    this.#chargeReset()
    if (!last) this.#reset.set(id, true)
    putReset(this.#link.connection.output, id, code)
  }

  #chargeReset(): void {
    if (this.#resets.take(1, performance.now())) return
    throw new ConnectionError(errorCode.enhanceYourCalm, 'too many streams are reset')
  }
}
