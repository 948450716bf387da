/**
 * A client's connection: its socket, when it is read and written, and how it ends. The responses to all requests of one
 * read are sent in one write, as are later responses of one tick.
 */

import type { Socket } from 'node:net'
import { FrameReader } from './frame-reader.ts'
import { ConnectionError, errorCode, maxStreamId } from './frames.ts'
import type { ConnectionLimits } from './limits.ts'
import { Output } from './output.ts'
import { putGoaway, putPing } from './put-frames.ts'
import { Session, type SessionLink, type SessionOptions } from './session.ts'

/** The payload of the PING that follows our GOAWAY: its acknowledgement shows that the client has read the GOAWAY. */
const partingPing = Buffer.from('tollgate')

export class Connection implements SessionLink {
  readonly #socket: Socket
  readonly #limits: ConnectionLimits
  readonly #reader: FrameReader
  readonly #session: Session
  readonly #onFault: (error: unknown) => void
  readonly output: Output
  #reading = false
  #flushes = false
  #stalled = false
  #drains = false
  #goawaySent = false
  #over = false
  /** Ends a client that neither sends nor reads. */
  #stall: NodeJS.Timeout | undefined
  readonly #reminder: NodeJS.Timeout
  /** Limits the wait for the client's last frames after GOAWAY, and for a client that has ended to read the rest. */
  #parting: NodeJS.Timeout | undefined

  constructor(socket: Socket, options: SessionOptions) {
    this.#socket = socket
    this.#limits = options.limits
    this.#onFault = options.onFault
    this.output = new Output(socket)
    const session = new Session(this, options)
    this.#session = session
    this.#reader = new FrameReader(session)
    this.#reminder = setInterval(() => session.streams.remind(), options.limits.requestMs).unref()
    socket.on('data', (data: Buffer) => this.#read(data))
    socket.on('drain', () => this.#resume())
    // Such a client reads nothing more. A busy process would send responses before the 'close' event.
    socket.on('error', () => this.#close())
    socket.on('end', () => {
      this.#close()
      this.#parting = setTimeout(() => this.destroy(), options.limits.partingMs)
    })
    socket.on('close', () => this.#close())
    session.greet()
    this.#flush()
    this.#watchStall()
  }

  /** The last GOAWAY is sent: new streams are refused. */
  get refuses(): boolean {
    return this.#goawaySent
  }

  /** Waits for the open streams to end, then closes the connection (6.8). May be called twice. */
  drain(): void {
    if (this.#drains || this.#over) return
    this.#drains = true
    // Streams that are on their way still count until the client acknowledges this PING.
    putGoaway(this.output, maxStreamId, errorCode.noError)
    putPing(this.output, 0, partingPing, 0)
    this.wrote()
    this.#parting = setTimeout(() => this.#goAway(), this.#limits.partingMs)
  }

  /** Closes it at once. */
  destroy(): void {
    this.#socket.destroy()
  }

  wrote(): void {
    if (this.#reading || this.#flushes) return
    this.#flushes = true
    process.nextTick(() => {
      this.#flushes = false
      this.#flush()
    })
  }

  fail(error: ConnectionError): void {
    if (this.#over) return
    putGoaway(this.output, this.#session.streams.last, error.code, error.message)
    this.#end()
  }

  greeted(): void {
    if (!this.#stalled) clearTimeout(this.#stall)
  }

  pinged(payload: Buffer): void {
    if (this.#drains && payload.equals(partingPing)) this.#goAway()
  }

  streamClosed(): void {
    if (this.#goawaySent && this.#session.streams.size === 0) this.#end()
  }

  #read(data: Buffer): void {
    if (this.#over) return
    this.#reading = true
    try {
      this.#reader.push(data)
    } catch (error) {
      this.fail(error instanceof ConnectionError ? error : this.#toInternal(error))
    }
    this.#reading = false
    this.#flush()
  }

  /** A bug in this server ends one connection and nothing else. */
  #toInternal(error: unknown): ConnectionError {
    this.#onFault(error)
    return new ConnectionError(errorCode.internalError, '')
  }

  /** Announces the last stream, and closes once all have ended. */
  #goAway(): void {
    if (this.#goawaySent || this.#over) return
    clearTimeout(this.#parting)
    this.#goawaySent = true
    putGoaway(this.output, this.#session.streams.last, errorCode.noError)
    this.wrote()
    this.streamClosed()
  }

  /** Writes all pending frames. Stops reading from a client that does not read. */
  #flush(): void {
    this.output.flush()
    if (this.#stalled || this.#over || this.output.waiting <= this.#limits.unwrittenBytes) return
    // Only then does the socket emit 'drain'.
    if (!this.#socket.writableNeedDrain) return
    this.#stalled = true
    this.#socket.pause()
    this.#watchStall()
  }

  #resume(): void {
    if (!this.#stalled || this.#over) return
    this.#stalled = false
    clearTimeout(this.#stall)
    this.#socket.resume()
  }

  #watchStall(): void {
    clearTimeout(this.#stall)
    this.#stall = setTimeout(() => this.destroy(), this.#limits.stallMs)
  }

  /** Writes the rest and closes; input until the client closes is ignored. */
  #end(): void {
    if (this.#over) return
    this.#over = true
    this.#reader.stop()
    this.output.flush()
    this.#socket.end()
    this.#socket.resume()
    clearTimeout(this.#parting)
    this.#parting = setTimeout(() => this.destroy(), this.#limits.partingMs)
    this.#session.streams.close()
  }

  #close(): void {
    this.#over = true
    this.#reader.stop()
    clearTimeout(this.#stall)
    clearTimeout(this.#parting)
    clearInterval(this.#reminder)
    this.#session.streams.close()
  }
}
