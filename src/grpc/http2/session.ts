/**
 * The protocol of a connection, frame by frame (RFC 9113, section 6): handles connection frames,
 * and passes stream frames to the streams.
 */

import { Budget } from './budget.ts'
import {
  ConnectionError,
  defaultWindow,
  errorCode,
  frameFlag,
  frameType,
  readUint31,
  settingId,
} from './frames.ts'
import { HpackEncoder } from './hpack-encoder.ts'
import type { ConnectionLimits } from './limits.ts'
import { PeerSettings } from './peer-settings.ts'
import { pingBytes, putPing, putSettings, putSettingsAck, putWindowUpdate } from './put-frames.ts'
import { SendWindow } from './send-window.ts'
import type { ConnectionLink, Stream, StreamLink } from './stream.ts'
import { Streams, type StreamsOptions } from './streams.ts'

export type SessionOptions = Omit<StreamsOptions, 'link'>

/** The connection, as the session uses it. */
export interface SessionLink extends ConnectionLink {
  /** The client's SETTINGS have arrived, its first frame. */
  greeted(): void
  /** The client has acknowledged our PING. */
  pinged(payload: Buffer): void
  /** A stream has ended. */
  streamClosed(): void
}

export class Session implements StreamLink {
  readonly connection: SessionLink
  readonly #limits: ConnectionLimits
  readonly #idleFrames: Budget
  readonly peer = new PeerSettings()
  readonly streams: Streams
  readonly encoder = new HpackEncoder()
  readonly window: SendWindow
  #greeted = false
  /** Bytes that the client may still send, and bytes that it has sent since the last extension. */
  #receiveWindow: number
  #received = 0

  constructor(connection: SessionLink, { limits, open, onFault }: SessionOptions) {
    this.connection = connection
    this.#limits = limits
    this.#receiveWindow = limits.connectionWindow
    this.#idleFrames = new Budget(limits.idleFrames, performance.now())
    this.window = new SendWindow(limits.heldBytes)
    this.streams = new Streams({
      link: this,
      limits,
      open: (stream, head) => {
        this.#idleFrames.give(limits.idleFramesPerRequest)
        return open(stream, head)
      },
      onFault,
    })
  }

  streamClosed(stream: Stream, resetByUs: boolean): void {
    this.streams.forget(stream, resetByUs)
    this.connection.streamClosed()
  }

  /** Sends our SETTINGS, and the part of the window that they cannot express (6.9.2). */
  greet(): void {
    const { streams, streamWindow, head, connectionWindow } = this.#limits
    putSettings(this.connection.output, [
      [settingId.maxConcurrentStreams, streams],
      [settingId.initialWindowSize, streamWindow],
      [settingId.maxHeaderListSize, head.bytes],
    ])
    if (connectionWindow > defaultWindow) {
      putWindowUpdate(this.connection.output, 0, connectionWindow - defaultWindow)
    }
  }

  /** Handles a frame whose payload is `buffer` from `start` to `end`. Throws a ConnectionError if the peer breaks the protocol. */
  take(
    type: number,
    flags: number,
    stream: number,
    buffer: Buffer,
    start: number,
    end: number,
  ): void {
    const { streams } = this
    const { blocks } = streams
    if (blocks.open !== 0) {
      expect(type === frameType.continuation && stream === blocks.open, 'header block')
    } else if (!this.#greeted) {
      expect(type === frameType.settings && (flags & frameFlag.ack) === 0, 'SETTINGS come first')
    }
    switch (type) {
      case frameType.data:
        this.#onData(flags, stream, buffer, start, end)
        break
      case frameType.headers:
        streams.onHeaders(flags, stream, buffer, start, end)
        break
      case frameType.continuation:
        blocks.continuation(flags, buffer, start, end)
        break
      case frameType.rstStream:
        streams.onReset(stream, end - start)
        break
      case frameType.priority:
        this.#charge(1)
        streams.onPriority(stream, buffer, start, end)
        break
      case frameType.settings:
        this.#onSettings(flags, stream, buffer, start, end)
        break
      case frameType.ping:
        this.#onPing(flags, stream, buffer, start, end)
        break
      case frameType.windowUpdate:
        this.#onWindowUpdate(stream, buffer, start, end)
        break
      case frameType.goaway:
        // The client opens no more streams; open ones are completed (6.8).
        this.#charge(1)
        expect(stream === 0, 'GOAWAY')
        expectSize(end - start >= 8, 'GOAWAY')
        break
      case frameType.pushPromise:
        throw new ConnectionError(errorCode.protocolError, 'PUSH_PROMISE')
      default:
        // Unknown extensions are ignored (5.5).
        this.#charge(1)
    }
  }

  #onData(flags: number, stream: number, buffer: Buffer, start: number, end: number): void {
    const size = end - start
    this.#receiveWindow -= size
    if (this.#receiveWindow < 0) {
      throw new ConnectionError(errorCode.flowControlError, 'window of the connection')
    }
    this.#received += size
    if (this.#received * 2 >= this.#limits.connectionWindow) {
      this.#receiveWindow += this.#received
      putWindowUpdate(this.connection.output, 0, this.#received)
      this.#received = 0
    }
    let from = start
    let to = end
    if ((flags & frameFlag.padded) !== 0) {
      to -= from < to ? (buffer[from] as number) : 0
      from += 1
      expect(from <= to, 'padding of DATA')
    }
    const last = (flags & frameFlag.endStream) !== 0
    if (from === to && !last) this.#charge(1)
    this.streams.onData(stream, last, size, buffer, from, to)
  }

  #onSettings(flags: number, stream: number, buffer: Buffer, start: number, end: number): void {
    expect(stream === 0, 'SETTINGS')
    if ((flags & frameFlag.ack) !== 0) {
      expectSize(start === end, 'SETTINGS')
      this.#charge(1)
      return
    }
    // A change of the initial window affects every stream.
    if (this.#greeted) this.#charge(10 + (this.streams.size >> 4))
    else this.connection.greeted()
    this.#greeted = true
    const before = this.peer.initialWindow
    this.peer.read(buffer, start, end)
    this.encoder.limitTable(this.peer.minTable)
    putSettingsAck(this.connection.output)
    if (this.peer.initialWindow === before) return
    this.streams.addWindows(this.peer.initialWindow - before)
    this.window.pump()
  }

  #onPing(flags: number, stream: number, buffer: Buffer, start: number, end: number): void {
    expect(stream === 0, 'PING')
    expectSize(end - start === pingBytes, 'PING')
    this.#charge(1)
    if ((flags & frameFlag.ack) === 0) putPing(this.connection.output, frameFlag.ack, buffer, start)
    else this.connection.pinged(buffer.subarray(start, end))
  }

  #onWindowUpdate(stream: number, buffer: Buffer, start: number, end: number): void {
    expectSize(end - start === 4, 'WINDOW_UPDATE')
    this.#charge(1)
    const increment = readUint31(buffer, start)
    if (stream === 0) {
      expect(increment > 0, 'WINDOW_UPDATE')
      this.window.add(increment)
    } else {
      this.streams.onWindowUpdate(stream, increment)
      this.window.pump()
    }
  }

  #charge(count: number): void {
    if (this.#idleFrames.take(count, performance.now())) return
    throw new ConnectionError(errorCode.enhanceYourCalm, 'too many frames that bring nothing')
  }
}

function expect(holds: boolean, what: string): void {
  if (!holds) throw new ConnectionError(errorCode.protocolError, what)
}

function expectSize(holds: boolean, frame: string): void {
  if (!holds) throw new ConnectionError(errorCode.frameSizeError, `length of ${frame}`)
}
