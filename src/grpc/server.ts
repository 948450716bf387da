/** The gRPC port: starts, answers bytes with bytes, drains. */

import { once } from 'node:events'
import http2, {
  type Http2SecureServer,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { AddressInfo, ListenOptions, ServerOpts, Socket } from 'node:net'
import type { ServerTls } from '../tls/listener-tls.ts'
import { endWith, refuse } from './call.ts'
import { createHealth } from './health.ts'
import type { Allowance } from './message-reader.ts'
import {
  createSinks,
  type Serve,
  type Sink,
  serveSource,
  serveUnary,
  type Unary,
} from './methods.ts'
import { findPlaces } from './places.ts'
import { CallError, code } from './status.ts'

export interface GrpcMethods {
  /** By full path, `/package.Service/Method`. */
  readonly unary: Readonly<Record<string, Unary>>
  readonly sinks: Readonly<Record<string, Sink>>
  /** Told of what was thrown that was not a bad message. */
  readonly onFault: (error: unknown) => void
  /** Of TCP addresses; what may use a Unix socket is said by its mode. undefined: in the clear. */
  readonly tls?: ServerTls | undefined
}

export interface GrpcServer {
  /** Listens on `host:port` or `unix:/path`; answers the port (0 for a path). */
  listen(address: string): Promise<number>
  /** Says NOT_SERVING, lets calls end for at most `graceMs`, then closes. */
  stop(graceMs: number): Promise<void>
}

const mebibyte = 2 ** 20
/** gRPC's own default. */
const maxMessageBytes = 4 * mebibyte
/** What all the unfinished messages of one connection may hold. */
const maxUnfinishedBytes = 64 * mebibyte
/** What a connection may send before it hears from us; HTTP/2's own 64 KiB is little for so many. */
const connectionWindowBytes = 8 * mebibyte
const unknownMethod = new CallError(code.unimplemented, 'unknown method')

const options: http2.ServerOptions & ServerOpts = {
  settings: {
    // Envoy multiplexes all of a worker's requests on one connection, up to its circuit breaker.
    maxConcurrentStreams: 65_536,
    // The log stream's messages are far longer than HTTP/2's own 64 KiB of window would like.
    initialWindowSize: mebibyte,
    maxHeaderListSize: 32_768,
    enablePush: false,
  },
  maxHeaderListPairs: 128,
  // In MB, of one connection. Beyond it streams are refused.
  maxSessionMemory: 512,
  // Envoy resets a Check when its client hangs up, which the client decides, and all that wait
  // after 2 s. Node's own limit, 1,000 and 33 a second, would have hung-up clients end the
  // connection that carries everybody's Checks. These allow what one process could answer.
  streamResetBurst: 50_000,
  streamResetRate: 10_000,
  // So that a peer whose machine is gone is found out.
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
}

/** A server of these methods and of grpc.health.v1. */
export function createGrpcServer(methods: GrpcMethods): GrpcServer {
  const { onFault, tls } = methods
  const health = createHealth()
  const sinks = createSinks()
  const serves = new Map<string | undefined, Serve>()
  for (const [path, answer] of Object.entries({ ...methods.unary, ...health.unary })) {
    serves.set(path, serveUnary(answer, onFault))
  }
  for (const [path, take] of Object.entries(methods.sinks)) {
    serves.set(path, sinks.serve(take, onFault))
  }
  for (const [path, source] of Object.entries(health.sources)) {
    serves.set(path, serveSource(source, onFault))
  }

  const servers = new Set<Http2Server | Http2SecureServer>()
  const sockets = new Set<Socket>()
  const sessions = new Map<Http2Session, Allowance>()

  function onSession(session: ServerHttp2Session): void {
    sessions.set(session, { left: maxUnfinishedBytes })
    session.once('close', () => sessions.delete(session))
    if (!session.destroyed) session.setLocalWindowSize(connectionWindowBytes)
  }

  function onStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    // What ends a stream is known by its 'close'; an error that nobody hears would end the process.
    stream.on('error', ignore)
    const allowance = stream.session && sessions.get(stream.session)
    if (stream.destroyed || allowance === undefined) return
    const serve = serves.get(headers[':path'])
    if (headers[':method'] !== 'POST') refuse(stream, 405)
    else if (!isGrpc(headers['content-type'])) refuse(stream, 415)
    else if (serve === undefined) endWith(stream, unknownMethod)
    else {
      const form = { maxBytes: maxMessageBytes, encoding: encodingOf(headers), allowance }
      serve(stream, form, headers.traceparent as string | undefined)
    }
  }

  async function listenAt(place: ListenOptions): Promise<number> {
    const server = place.path === undefined && tls ? secured(tls) : http2.createServer(options)
    server.on('session', onSession)
    server.on('stream', onStream)
    server.on('connection', (socket: Socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    })
    server.listen(place)
    await once(server, 'listening')
    // From now on these are connections that could not be accepted.
    server.on('error', onFault)
    servers.add(server)
    server.once('close', () => servers.delete(server))
    return place.path === undefined ? (server.address() as AddressInfo).port : 0
  }

  return {
    async listen(address) {
      let port: number | undefined
      let problem: unknown
      for (const place of await findPlaces(address)) {
        try {
          port = await listenAt(port === undefined ? place : { ...place, port })
        } catch (error) {
          if (!isNotHere(error)) throw error
          problem = error
        }
      }
      if (port === undefined) throw problem
      return port
    },
    async stop(graceMs) {
      health.drain()
      void sinks.end()
      const closed = [...servers].map((server) => once(server, 'close'))
      // Node sends GOAWAY on every connection: what has begun goes on, and what a client begins
      // meanwhile it knows to be refused.
      for (const server of servers) server.close()
      const force = setTimeout(() => {
        for (const session of sessions.keys()) session.destroy()
        for (const socket of sockets) socket.destroy()
      }, graceMs)
      await Promise.all(closed)
      clearTimeout(force)
    },
  }
}

function secured(tls: ServerTls): Http2SecureServer {
  const server = http2.createSecureServer({ ...options, ...tls.options })
  tls.follow(server)
  return server
}

/** Of a name's addresses, one that this machine does not have: `localhost` without IPv6. */
function isNotHere(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT'
}

function isGrpc(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/grpc(\+proto)?\s*(;|$)/.test(contentType)
}

function encodingOf(headers: IncomingHttpHeaders): string | undefined {
  return headers['grpc-encoding'] as string | undefined
}

function ignore(): void {}
