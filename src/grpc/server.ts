/** The gRPC port: starts, answers bytes with bytes, drains. */

import { setTimeout as delay } from 'node:timers/promises'
import * as grpc from '@grpc/grpc-js'
import { createHealth } from './health.ts'
import { WireError } from './wire.ts'

/** Answers one message with one message, at once or later. */
export type Unary = (request: Buffer) => Buffer | Promise<Buffer>

/** Takes a client's stream of messages, one by one; the stream's own answer is empty. */
export type Sink = (message: Buffer) => void

export interface GrpcMethods {
  /** By full path, `/package.Service/Method`. */
  readonly unary: Readonly<Record<string, Unary>>
  readonly sinks: Readonly<Record<string, Sink>>
  /** Told of what was thrown that was not a bad message. */
  readonly onFault: (error: unknown) => void
}

export interface GrpcServer {
  /** Listens on `host:port` or `unix:/path`; answers the port (0 for a path). */
  listen(address: string): Promise<number>
  /** Says NOT_SERVING, lets calls end for at most `graceMs`, then closes. */
  stop(graceMs: number): Promise<void>
}

/** A client's stream is over for us once nothing has come for so long after the drain began. */
const quietMs = 100
/** A stream that is never quiet is ended all the same: its client has another server to go to. */
const patienceMs = 1_000

const bytes = (buffer: Buffer): Buffer => buffer

/** A server of these methods and of grpc.health.v1. */
export function createGrpcServer(methods: GrpcMethods): GrpcServer {
  const server = new grpc.Server({
    // Envoy multiplexes all of a worker's requests on one connection.
    'grpc.max_concurrent_streams': 2 ** 31 - 1,
  })
  const health = createHealth()

  for (const [path, answer] of Object.entries(methods.unary)) {
    server.register(path, unaryHandler(answer, methods.onFault), bytes, bytes, 'unary')
  }
  const streams = createStreams()
  for (const [path, take] of Object.entries(methods.sinks)) {
    const handler = streams.handler(take, methods.onFault)
    server.register(path, handler, bytes, bytes, 'clientStream')
  }
  server.addService(health.definition, health.implementation)

  return {
    listen: (address) =>
      new Promise((resolve, reject) => {
        server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (error, port) => {
          if (error === null) resolve(address.startsWith('unix:') ? 0 : port)
          else reject(error)
        })
      }),
    stop: (graceMs) =>
      new Promise((resolve) => {
        health.drain()
        void streams.end()
        const force = setTimeout(() => server.forceShutdown(), graceMs)
        server.tryShutdown(() => {
          clearTimeout(force)
          resolve()
        })
      }),
  }
}

function unaryHandler(
  answer: Unary,
  onFault: (error: unknown) => void,
): grpc.handleUnaryCall<Buffer, Buffer> {
  return (call, callback) => {
    const fail = (error: unknown): void => callback(toStatus(error, onFault))
    try {
      const response = answer(call.request)
      if (response instanceof Promise) response.then((late) => callback(null, late), fail)
      else callback(null, response)
    } catch (error) {
      fail(error)
    }
  }
}

/** The streams that clients hold open for good; a drain has to end them from this side. */
function createStreams(): {
  handler(take: Sink, onFault: (error: unknown) => void): StreamHandler
  /** Answers every stream once it is quiet, so that what is on its way still arrives. */
  end(): Promise<void>
} {
  const open = new Set<() => void>()
  let lastMessageAt = 0
  return {
    handler: (take, onFault) => (call, callback) => {
      const end = (): void => {
        if (open.delete(end)) callback(null, Buffer.alloc(0))
      }
      open.add(end)
      call.on('data', (message: Buffer) => {
        lastMessageAt = performance.now()
        try {
          take(message)
        } catch (error) {
          // One bad message must not end the stream that carries everybody's usage.
          onFault(error)
        }
      })
      call.on('end', end)
      call.on('error', () => open.delete(end))
      call.on('cancelled', () => open.delete(end))
    },
    async end() {
      const giveUpAt = performance.now() + patienceMs
      do await delay(quietMs)
      while (performance.now() - lastMessageAt < quietMs && performance.now() < giveUpAt)
      for (const end of [...open]) end()
    },
  }
}

type StreamHandler = grpc.handleClientStreamingCall<Buffer, Buffer>

function toStatus(error: unknown, onFault: (error: unknown) => void): grpc.ServiceError {
  const malformed = error instanceof WireError
  if (!malformed) onFault(error)
  const code = malformed ? grpc.status.INVALID_ARGUMENT : grpc.status.INTERNAL
  const message = malformed ? `malformed message: ${error.message}` : 'internal error'
  return Object.assign(new Error(message), {
    code,
    details: message,
    metadata: new grpc.Metadata(),
  })
}
