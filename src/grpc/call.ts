/**
 * A gRPC call on an HTTP/2 stream: its incoming data, and the ways to respond. Every Check passes
 * through here, so header lists are shared objects.
 */

import type { FieldList } from './http2/hpack-encoder.ts'
import type { RequestHead } from './http2/request-head.ts'
import { ignoreStream, type Stream, type StreamHandler } from './http2/stream.ts'
import {
  chargeAllowance,
  copyBytes,
  isMessage,
  type MessageForm,
  MessageReader,
  prefixBytes,
} from './message-reader.ts'
import { CallError, encodeGrpcMessage, grpcStatus, toCallError } from './status.ts'

const status200 = { name: ':status', value: '200' }
const contentType = { name: 'content-type', value: 'application/grpc+proto', agreed: true }
const okHeaders: FieldList = [status200, contentType]
const okTrailers: FieldList = [{ name: 'grpc-status', value: String(grpcStatus.ok), agreed: true }]
const acceptedEncodings = { name: 'grpc-accept-encoding', value: 'identity,gzip' }
const prefix = Buffer.alloc(prefixBytes)

const tooLate = new CallError(grpcStatus.deadlineExceeded, 'deadline exceeded')
const overdue = new CallError(grpcStatus.deadlineExceeded, 'the request was not completed in time')

type OnFault = (error: unknown) => void

/** Handles a stream that is a gRPC call of its method. */
export type ServeCall = (stream: Stream, head: RequestHead, form: MessageForm) => StreamHandler

/**
 * Returns the response message to a request message, at once or later. `traceparent` is the call's own header (W3C
 * Trace Context), unparsed, and may be omitted if it does not sample. `call` reports a client that disconnects without
 * having read the response.
 */
export type Unary = (
  request: Buffer,
  traceparent?: string,
  call?: Pick<Stream, 'whenReset' | 'takeBack'>,
) => Buffer | Promise<Buffer>

/** Sends messages to a client; the returned function is called when it disconnects. */
type ServerStreaming = (subscriber: Subscriber) => () => void

export interface Subscriber {
  send(message: Buffer): void
  end(): void
}

/** Serves a unary method: one request message, one response message. */
export function serveUnary(unary: Unary, onFault: OnFault): ServeCall {
  return serve(onFault, (call, message) => {
    const { stream } = call
    const response = unary(message, call.traceparent, stream)
    if (!(response instanceof Promise)) return respondWith(stream, response)
    // Only a response that is not immediate can be late.
    call.startTimer()
    response.then((late) => respondWith(stream, late)).catch((error) => call.fail(error))
  })
}

/** Serves a server-streaming method: one request message, any number of responses. */
export function serveServerStreaming(subscribe: ServerStreaming, onFault: OnFault): ServeCall {
  return serve(onFault, (call) => {
    const { stream } = call
    stream.respond(okHeaders)
    call.startTimer()
    const unsubscribe = subscribe({
      send: (message) => sendMessage(stream, message),
      end: () => stream.finish(okTrailers),
    })
    if (stream.closed) unsubscribe()
    else call.onClosed = unsubscribe
  })
}

/** Processes the message of a call; an exception ends the call. */
type Act = (call: Call, message: Buffer) => void

function serve(onFault: OnFault, act: Act): ServeCall {
  return (stream, head, form) => new Call(stream, head, form, onFault, act)
}

/** A call in progress, of a single message: until it ends, fails, times out or is aborted. */
class Call implements StreamHandler {
  readonly stream: Stream
  readonly traceparent: string | undefined
  onClosed: (() => void) | undefined
  readonly #onFault: OnFault
  readonly #act: Act
  readonly #form: MessageForm
  readonly #timeout: string | undefined
  #timer: NodeJS.Timeout | undefined
  #reader: MessageReader | undefined
  #message: Buffer | undefined
  #kept = 0
  #over = false

  constructor(stream: Stream, head: RequestHead, form: MessageForm, onFault: OnFault, act: Act) {
    this.stream = stream
    this.traceparent = head.traceparent
    this.#onFault = onFault
    this.#act = act
    this.#form = form
    this.#timeout = head.timeout
  }

  data(payload: Buffer, last: boolean): void {
    if (this.#over) return
    try {
      this.#read(payload, last)
      if (!last) return
      this.#over = true
      if (this.#reader?.midway) throw new CallError(grpcStatus.internal, 'message is cut short')
      if (this.#message === undefined) throw new CallError(grpcStatus.unimplemented, 'no message')
      const act = this.#act
      act(this, this.#message)
    } catch (error) {
      this.#over = true
      this.#reader?.drop()
      this.fail(error)
    }
  }

  /** Ends the call with DEADLINE_EXCEEDED after its `grpc-timeout`, counted from now. */
  startTimer(): void {
    const ms = readTimeout(this.#timeout)
    if (ms !== undefined) this.#timer = setTimeout(() => endCallWithError(this.stream, tooLate), ms)
  }

  /** Has a deadline of its own, because a client need not send `grpc-timeout`. */
  overdue(): void {
    endCallWithError(this.stream, overdue)
  }

  fail(error: unknown): void {
    endCallWithError(this.stream, toCallError(error, this.#onFault))
  }

  closed(): void {
    this.#over = true
    this.#reader?.drop()
    this.#form.allowance.left += this.#kept
    clearTimeout(this.#timer)
    this.onClosed?.()
  }

  /** A message that is exactly one frame, as most are, needs no reader. */
  #read(payload: Buffer, last: boolean): void {
    if (payload.length === 0) return
    if (this.#reader === undefined && isMessage(payload, this.#form)) {
      this.#take(payload.subarray(prefixBytes), last)
      return
    }
    this.#reader ??= new MessageReader(this.#form)
    this.#reader.push(payload, (message) => this.#take(message, last))
  }

  /** `last`: nothing follows it in the data read so far. Else it is copied, because it would retain the whole buffer that was read. */
  #take(message: Buffer, last: boolean): void {
    if (this.#message !== undefined)
      throw new CallError(grpcStatus.unimplemented, 'more than one message')
    if (!last) this.#kept += chargeAllowance(this.#form, message.length)
    this.#message = last ? message : copyBytes(message)
  }
}

/** Sends an uncompressed message: its length, then its bytes. */
function sendMessage(stream: Stream, message: Buffer): void {
  prefix.writeUInt32BE(message.length, 1)
  stream.write(prefix, message)
}

/** Responds with one message and OK; does nothing if the client is gone. */
function respondWith(stream: Stream, message: Buffer): void {
  if (stream.responded) return
  stream.respond(okHeaders)
  sendMessage(stream, message)
  stream.finish(okTrailers)
}

/** Ends a call with an error: alone ("Trailers-Only"), or after messages that were sent already. */
export function endCallWithError(stream: Stream, error: CallError): void {
  const status = [
    { name: 'grpc-status', value: String(error.code) },
    { name: 'grpc-message', value: encodeGrpcMessage(error.message) },
  ]
  if (error.code === grpcStatus.unimplemented) status.push(acceptedEncodings)
  if (stream.responded) stream.finish(status)
  else stream.respond([status200, contentType, ...status], true)
}

/** Refuses a request that is not a gRPC call, with this HTTP status. */
export function refuseNonGrpc(stream: Stream, status: number): StreamHandler {
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
