/** The three kinds of call that the server knows, each on its stream. */

import type { ServerHttp2Stream } from 'node:http2'
import { setTimeout as delay } from 'node:timers/promises'
import { answerWith, begin, endWith, frame, receive } from './call.ts'
import type { MessageForm } from './message-reader.ts'
import { CallError, code, toCallError } from './status.ts'

/**
 * Answers one message with one message, at once or later. `traceparent` is the call's own header
 * (W3C Trace Context), as it came; one that does not sample may be left out.
 */
export type Unary = (request: Buffer, traceparent?: string) => Buffer | Promise<Buffer>

/** Takes a client's stream of messages, one by one; the stream's own answer is empty. */
export type Sink = (message: Buffer) => void

/** Sends one client messages until it leaves, when the function that was returned is called. */
export type Source = (subscriber: Subscriber) => () => void

export interface Subscriber {
  send(message: Buffer): void
  end(): void
}

type OnFault = (error: unknown) => void
/** Takes a stream that is a gRPC call of its method. */
export type Serve = (stream: ServerHttp2Stream, form: MessageForm, traceparent?: string) => void

/** A client's stream is over for us once nothing has come for so long after the drain began. */
const quietMs = 100
/** A stream that is never quiet is ended all the same: its client has another server to go to. */
const patienceMs = 1_000

const nothing = Buffer.alloc(0)

/** Serves a method that answers one message with one. */
export function serveUnary(answer: Unary, onFault: OnFault): Serve {
  return (stream, form, traceparent) => {
    const fail = (error: unknown): void => endWith(stream, toCallError(error, onFault))
    onlyMessage(stream, form, fail, (request) => {
      const response = answer(request, traceparent)
      if (response instanceof Promise) {
        response.then((late) => answerWith(stream, late)).catch(fail)
      } else {
        answerWith(stream, response)
      }
    })
  }
}

/** Serves a method that answers one message with any number of them. */
export function serveSource(source: Source, onFault: OnFault): Serve {
  return (stream, form) => {
    const fail = (error: unknown): void => endWith(stream, toCallError(error, onFault))
    onlyMessage(stream, form, fail, () => {
      if (!begin(stream)) return
      const leave = source({
        send: (message) => stream.write(frame(message)),
        end: () => stream.end(),
      })
      stream.on('close', leave)
    })
  }
}

/** The streams that clients hold open for good; a drain has to end them from this side. */
export interface Sinks {
  serve(take: Sink, onFault: OnFault): Serve
  /** Answers every stream once it is quiet, so that what is on its way still arrives. */
  end(): Promise<void>
}

export function createSinks(): Sinks {
  const open = new Set<() => void>()
  let lastMessageAt = 0
  return {
    serve: (take, onFault) => (stream, form) => {
      const end = (): void => {
        if (open.delete(end)) answerWith(stream, nothing)
      }
      open.add(end)
      stream.on('close', () => open.delete(end))
      receive(stream, form, {
        take(message) {
          lastMessageAt = performance.now()
          try {
            take(message)
          } catch (error) {
            // One bad message must not end the stream that carries everybody's usage.
            onFault(error)
          }
        },
        end,
        fail(error) {
          open.delete(end)
          endWith(stream, toCallError(error, onFault))
        },
      })
    },
    async end() {
      const giveUpAt = performance.now() + patienceMs
      do await delay(quietMs)
      while (performance.now() - lastMessageAt < quietMs && performance.now() < giveUpAt)
      for (const end of [...open]) end()
    },
  }
}

/** Calls `act` with the one message of a stream that has one. */
function onlyMessage(
  stream: ServerHttp2Stream,
  form: MessageForm,
  fail: (error: unknown) => void,
  act: (message: Buffer) => void,
): void {
  let only: Buffer | undefined
  receive(stream, form, {
    take(message) {
      if (only !== undefined) throw new CallError(code.unimplemented, 'more than one message')
      only = message
    },
    end() {
      if (only === undefined) throw new CallError(code.unimplemented, 'no message')
      act(only)
    },
    fail,
  })
}
