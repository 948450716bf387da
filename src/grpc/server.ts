/** The gRPC port: starts, answers bytes with bytes, drains. */

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
  for (const [path, take] of Object.entries(methods.sinks)) {
    server.register(path, sinkHandler(take, methods.onFault), bytes, bytes, 'clientStream')
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

function sinkHandler(
  take: Sink,
  onFault: (error: unknown) => void,
): grpc.handleClientStreamingCall<Buffer, Buffer> {
  return (call, callback) => {
    call.on('data', (message: Buffer) => {
      try {
        take(message)
      } catch (error) {
        // One bad message must not end the stream that carries everybody's usage.
        onFault(error)
      }
    })
    call.on('end', () => callback(null, Buffer.alloc(0)))
    call.on('error', () => {})
  }
}

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
