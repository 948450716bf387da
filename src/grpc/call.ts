/**
 * A call is an HTTP/2 stream (gRPC over HTTP/2): what comes in on it, and the ways to answer. Each
 * Check passes here, so header lists are the same objects every time.
 */

import type { FieldList } from './http2/hpack-encoder.ts'
import type { Stream, StreamHandler } from './http2/stream.ts'
import {
  charge,
  isMessage,
  type MessageForm,
  MessageReader,
  prefixBytes,
} from './message-reader.ts'
import { CallError, code, encodeMessage } from './status.ts'

const status200 = { name: ':status', value: '200' }
const contentType = { name: 'content-type', value: 'application/grpc+proto', agreed: true }
const okHeaders: FieldList = [status200, contentType]
const okTrailers: FieldList = [{ name: 'grpc-status', value: String(code.ok), agreed: true }]
const acceptedEncodings = { name: 'grpc-accept-encoding', value: 'identity,gzip' }
const prefix = Buffer.alloc(prefixBytes)

/** A call that is being taken: hands over a client's messages until it ends, fails or goes away. */
export abstract class Call implements StreamHandler {
  protected readonly stream: Stream
  readonly #form: MessageForm
  #reader: MessageReader | undefined
  #kept = 0
  #over = false

  constructor(stream: Stream, form: MessageForm) {
    this.stream = stream
    this.#form = form
  }

  /**
   * A message is whole; `last`: nothing comes after what was read with it. What is thrown ends the
   * call.
   */
  protected abstract take(message: Buffer, last: boolean): void
  /** The client has said all, and all of it was whole. What is thrown ends the call. */
  protected abstract end(): void
  /** The call ends with this error. */
  protected abstract fail(error: unknown): void
  /** The call is over, answered or not. */
  protected abstract leave(): void

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

  closed(): void {
    this.#over = true
    this.#reader?.drop()
    this.#form.allowance.left += this.#kept
    this.leave()
  }

  /** A copy to wait with for more: the message itself would keep all that was read at once. */
  protected keep(message: Buffer): Buffer {
    this.#kept += charge(this.#form, message.length)
    return Buffer.from(message)
  }

  /** What is the whole of a frame, as most messages are, needs no reader. */
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

/** Begins an answer that will end well: `sendMessage` and `endWell` follow. */
export function begin(stream: Stream): void {
  stream.respond(okHeaders)
}

/** Sends a message as it goes on the wire: not compressed, its length, itself. */
export function sendMessage(stream: Stream, message: Buffer): void {
  prefix.writeUInt32BE(message.length, 1)
  stream.write(prefix, message)
}

/** Ends an answer with OK. */
export function endWell(stream: Stream): void {
  stream.finish(okTrailers)
}

/** Answers with one message and OK; nothing happens when the client is gone. */
export function answerWith(stream: Stream, message: Buffer): void {
  if (stream.responded) return
  begin(stream)
  sendMessage(stream, message)
  endWell(stream)
}

/** Ends a call with an error: alone ("Trailers-Only"), or after what it was answered already. */
export function endWith(stream: Stream, error: CallError): void {
  const status = [
    { name: 'grpc-status', value: String(error.code) },
    { name: 'grpc-message', value: encodeMessage(error.message) },
  ]
  if (error.code === code.unimplemented) status.push(acceptedEncodings)
  if (stream.responded) stream.finish(status)
  else stream.respond([status200, contentType, ...status], true)
}

/** Refuses what is no gRPC call, with this status of HTTP. */
export function refuse(stream: Stream, status: number): StreamHandler {
  stream.respond([{ name: ':status', value: String(status) }], true)
  return deaf
}

/** Takes nothing of a call that is answered. */
export const deaf: StreamHandler = { data() {}, closed() {} }
