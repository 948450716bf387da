/** The two kinds of calls that the server supports, each on its stream. */

import { answerWith, begin, Call, endWell, type OnFault, sendMessage } from './call.ts'
import type { RequestHead } from './http2/request-head.ts'
import type { Stream, StreamHandler } from './http2/stream.ts'
import type { MessageForm } from './message-reader.ts'
import { CallError, code } from './status.ts'

/**
 * Answers one message with one message, at once or later. `traceparent` is the call's own header
 * (W3C Trace Context), unparsed; it may be left out if it does not sample. `call` tells a client that
 * leaves without having read the answer.
 */
export type Unary = (
  request: Buffer,
  traceparent?: string,
  call?: Pick<Stream, 'whenReset'>,
) => Buffer | Promise<Buffer>

/** Sends a client messages until it leaves, which calls the returned function. */
export type ServerStreaming = (subscriber: Subscriber) => () => void

export interface Subscriber {
  send(message: Buffer): void
  end(): void
}

/** Handles a stream that is a gRPC call of its method. */
export type Serve = (stream: Stream, head: RequestHead, form: MessageForm) => StreamHandler

/** Serves a method that answers one message with one. */
export function serveUnary(answer: Unary, onFault: OnFault): Serve {
  return (stream, head, form) => new UnaryCall(stream, head, form, onFault, answer)
}

/** Serves a method that answers one message with any number of them. */
export function serveServerStreaming(subscribe: ServerStreaming, onFault: OnFault): Serve {
  return (stream, head, form) => new ServerStreamingCall(stream, head, form, onFault, subscribe)
}

/** A call with a single message. */
abstract class OnlyMessageCall extends Call {
  #only: Buffer | undefined

  protected abstract act(message: Buffer): void

  protected take(message: Buffer, last: boolean): void {
    if (this.#only !== undefined) throw new CallError(code.unimplemented, 'more than one message')
    this.#only = last ? message : this.keep(message)
  }

  protected end(): void {
    if (this.#only === undefined) throw new CallError(code.unimplemented, 'no message')
    this.act(this.#only)
  }
}

class UnaryCall extends OnlyMessageCall {
  readonly #answer: Unary
  readonly #traceparent: string | undefined

  constructor(
    stream: Stream,
    head: RequestHead,
    form: MessageForm,
    onFault: OnFault,
    answer: Unary,
  ) {
    super(stream, head, form, onFault)
    this.#answer = answer
    this.#traceparent = head.traceparent
  }

  protected act(message: Buffer): void {
    const answer = this.#answer
    const response = answer(message, this.#traceparent, this.stream)
    if (response instanceof Promise) {
      // Only a response that is not immediate can be late.
      this.startTimer()
      response.then((late) => answerWith(this.stream, late)).catch((error) => this.fail(error))
    } else {
      answerWith(this.stream, response)
    }
  }
}

class ServerStreamingCall extends OnlyMessageCall {
  readonly #subscribe: ServerStreaming
  #unsubscribe: (() => void) | undefined

  constructor(
    stream: Stream,
    head: RequestHead,
    form: MessageForm,
    onFault: OnFault,
    subscribe: ServerStreaming,
  ) {
    super(stream, head, form, onFault)
    this.#subscribe = subscribe
  }

  protected act(): void {
    const { stream } = this
    begin(stream)
    this.startTimer()
    const subscribe = this.#subscribe
    this.#unsubscribe = subscribe({
      send: (message) => sendMessage(stream, message),
      end: () => endWell(stream),
    })
    if (stream.closed) this.#unsubscribe()
  }

  override closed(): void {
    super.closed()
    this.#unsubscribe?.()
  }
}
