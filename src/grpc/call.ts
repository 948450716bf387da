/**
 * A call is an HTTP/2 stream (gRPC over HTTP/2): what comes in on it, and the ways to answer. Each
 * Check passes here, so listeners, headers and options are shared where they can be.
 */

import type { ServerHttp2Stream } from 'node:http2'
import { type MessageForm, MessageReader, prefixBytes } from './message-reader.ts'
import { CallError, code, encodeMessage } from './status.ts'

const contentType = 'application/grpc+proto'
const okHeaders = { ':status': 200, 'content-type': contentType }
const okOptions = { waitForTrailers: true, sendDate: false }
const okTrailers = { 'grpc-status': String(code.ok) }
const lastHeaders = { endStream: true, sendDate: false }

/** What a call does with what the client sends. */
export interface Receiver {
  /** A message is whole. What it throws ends the call. */
  take(message: Buffer): void
  /** The client has said all, and all of it was whole. What it throws ends the call. */
  end(): void
  /** The call ends with this error. */
  fail(error: unknown): void
}

/** Hands a client's messages over until it ends, fails or goes away. */
export function receive(stream: ServerHttp2Stream, form: MessageForm, receiver: Receiver): void {
  const reader = new MessageReader(form)
  const take = (message: Buffer): void => receiver.take(message)
  let over = false
  let dropsOnClose = false
  const fail = (error: unknown): void => {
    over = true
    reader.drop()
    receiver.fail(error)
  }
  stream.on('data', (data: Buffer) => {
    // After a reset there may still be data in the queue: nobody waits for that answer.
    if (over || stream.destroyed) return
    try {
      reader.push(data, take)
    } catch (error) {
      fail(error)
    }
    if (!reader.midway || dropsOnClose) return
    dropsOnClose = true
    stream.on('close', () => reader.drop())
  })
  stream.on('end', () => {
    // A stream that was reset ends as well, as if the client had said all.
    if (over || stream.closed) return
    over = true
    try {
      if (reader.midway) throw new CallError(code.internal, 'message is cut short')
      receiver.end()
    } catch (error) {
      fail(error)
    }
  })
}

/**
 * Begins an answer that will end well: the stream's `write` and `end` then take framed messages.
 * False when the client is gone.
 */
export function begin(stream: ServerHttp2Stream): boolean {
  if (isGone(stream)) return false
  stream.on('wantTrailers', sendOkTrailers)
  stream.respond(okHeaders, okOptions)
  return true
}

/** Answers with one message and OK; nothing happens when the client is gone. */
export function answerWith(stream: ServerHttp2Stream, message: Buffer): void {
  if (begin(stream)) stream.end(frame(message))
}

/** Ends a call that has not been answered with an error alone ("Trailers-Only"). */
export function endWith(stream: ServerHttp2Stream, error: CallError): void {
  if (isGone(stream) || stream.headersSent) return
  stream.respond(
    {
      ':status': 200,
      'content-type': contentType,
      'grpc-status': String(error.code),
      'grpc-message': encodeMessage(error.message),
      ...(error.code === code.unimplemented && { 'grpc-accept-encoding': 'identity,gzip' }),
    },
    lastHeaders,
  )
  hangUp(stream)
}

/** Refuses what is no gRPC call, with this status of HTTP. */
export function refuse(stream: ServerHttp2Stream, status: number): void {
  if (isGone(stream)) return
  stream.respond({ ':status': status }, lastHeaders)
  hangUp(stream)
}

/** As it goes on the wire: not compressed, its length, itself. */
export function frame(message: Buffer): Buffer {
  const framed = Buffer.allocUnsafe(prefixBytes + message.length)
  framed[0] = 0
  framed.writeUInt32BE(message.length, 1)
  message.copy(framed, prefixBytes)
  return framed
}

/** All is said; tells a client that is still sending that nobody listens (RFC 9113, 8.1). */
function hangUp(stream: ServerHttp2Stream): void {
  if (!stream.readableEnded) stream.close()
}

function isGone(stream: ServerHttp2Stream): boolean {
  return stream.destroyed || stream.closed
}

function sendOkTrailers(this: ServerHttp2Stream): void {
  this.sendTrailers(okTrailers)
  // Trailers leave in the next round of immediates; a reset must not overtake them.
  if (!this.readableEnded) setImmediate(hangUp, this)
}
