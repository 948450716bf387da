/**
 * A gRPC call on an HTTP/2 stream: its incoming data, and the ways to respond. Every Check passes
 * through here, so header lists are shared objects.
 */

import type { FieldList } from './http2/hpack-encoder.ts'
import type { RequestHead } from './http2/request-head.ts'
import { ignoreStream, type Stream, type StreamHandler } from './http2/stream.ts'
import {
  charge,
  isMessage,
  type MessageForm,
  MessageReader,
  prefixBytes,
} from './message-reader.ts'
import { CallError, code, encodeMessage, toCallError } from './status.ts'

const status200 = { name: ':status', value: '200' }
const contentType = { name: 'content-type', value: 'application/grpc+proto', agreed: true }
const okHeaders: FieldList = [status200, contentType]
const okTrailers: FieldList = [{ name: 'grpc-status', value: String(code.ok), agreed: true }]
const acceptedEncodings = { name: 'grpc-accept-encoding', value: 'identity,gzip' }
const prefix = Buffer.alloc(prefixBytes)

const tooLate = new CallError(code.deadlineExceeded, 'deadline exceeded')
const overdue = new CallError(code.deadlineExceeded, 'the request was not completed in time')

export type OnFault = (error: unknown) => void

/** A call in progress: passes on a client's messages until it ends, fails, times out or is aborted. */
export abstract class Call implements StreamHandler {
  protected readonly stream: Stream
  protected readonly onFault: OnFault
  readonly #form: MessageForm
  readonly #timeout: string | undefined
  #timer: NodeJS.Timeout | undefined
  #reader: MessageReader | undefined
  #kept = 0
  #over = false

  constructor(stream: Stream, head: RequestHead, form: MessageForm, onFault: OnFault) {
    this.stream = stream
    this.onFault = onFault
    this.#form = form
    this.#timeout = head.timeout
  }

  /**
   * Receives a complete message; `last`: nothing follows it in the data read so far. An exception
   * ends the call.
   */
  protected abstract take(message: Buffer, last: boolean): void
  /** The client has sent everything, and all messages were complete. An exception ends the call. */
  protected abstract end(): void

  data(payload: Buffer, last: boolean): void {
    if (this.#over) return
    try {
      this.#read(payload, last)
      if (!last) return
      this.#over = true
      if (this.#reader?.midway) throw new CallError(code.internal, 'message is cut short')
      this.end()
    } catch (error) {
      this.#over = true
      this.#reader?.drop()
      this.fail(error)
    }
  }

  /** Ends the call with DEADLINE_EXCEEDED after its `grpc-timeout`, counted from now. */
  protected startTimer(): void {
    const ms = readTimeout(this.#timeout)
    if (ms !== undefined) this.#timer = setTimeout(() => endWith(this.stream, tooLate), ms)
  }

  /** Has a deadline of its own, because a client need not send `grpc-timeout`. */
  overdue(): void {
    endWith(this.stream, overdue)
  }

  protected fail(error: unknown): void {
    endWith(this.stream, toCallError(error, this.onFault))
  }

  closed(): void {
    this.#over = true
    this.#reader?.drop()
    this.#form.allowance.left += this.#kept
    clearTimeout(this.#timer)
  }

  /** A copy for keeping: the message itself would retain the whole buffer that was read. */
  protected keep(message: Buffer): Buffer {
    this.#kept += charge(this.#form, message.length)
    return Buffer.from(message)
  }

  /** A message that is exactly one frame, as most are, needs no reader. */
  #read(payload: Buffer, last: boolean): void {
    if (payload.length === 0) return
    if (this.#reader === undefined && isMessage(payload, this.#form)) {
      this.take(payload.subarray(prefixBytes), last)
      return
    }
    this.#reader ??= new MessageReader(this.#form)
    this.#reader.push(payload, (message) => this.take(message, last))
  }
}

/** Begins a successful response; `sendMessage` and `endWell` follow. */
export function begin(stream: Stream): void {
  stream.respond(okHeaders)
}

/** Sends an uncompressed message: its length, then its bytes. */
export function sendMessage(stream: Stream, message: Buffer): void {
  prefix.writeUInt32BE(message.length, 1)
  stream.write(prefix, message)
}

/** Ends a response with OK. */
export function endWell(stream: Stream): void {
  stream.finish(okTrailers)
}

/** Responds with one message and OK; does nothing if the client is gone. */
export function answerWith(stream: Stream, message: Buffer): void {
  if (stream.responded) return
  begin(stream)
  sendMessage(stream, message)
  endWell(stream)
}

/** Ends a call with an error: alone ("Trailers-Only"), or after messages that were sent already. */
export function endWith(stream: Stream, error: CallError): void {
  const status = [
    { name: 'grpc-status', value: String(error.code) },
    { name: 'grpc-message', value: encodeMessage(error.message) },
  ]
  if (error.code === code.unimplemented) status.push(acceptedEncodings)
  if (stream.responded) stream.finish(status)
  else stream.respond([status200, contentType, ...status], true)
}

/** Refuses a request that is not a gRPC call, with this HTTP status. */
export function refuse(stream: Stream, status: number): StreamHandler {
  stream.respond([{ name: ':status', value: String(status) }], true)
  return ignoreStream
}

const form = /^([0-9]{1,8})([HMSmun])$/
const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}
/** The longest time of a timer: 24 days. */
const maxMs = 2 ** 31 - 1

/** In milliseconds; undefined if absent or invalid. */
export function readTimeout(text: string | undefined): number | undefined {
  const [, count, unit = ''] = form.exec(text ?? '') ?? []
  if (count === undefined) return undefined
  return Math.min(maxMs, Math.ceil(Number(count) * (unitMs[unit] as number)))
}
