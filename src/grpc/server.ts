/** The gRPC server: starts, passes request bytes to handlers and sends their response bytes, drains. */

import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import {
  type AddressInfo,
  createServer,
  type ListenOptions,
  type Server,
  type Socket,
} from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls'
import type { ServerTls } from '../tls/listener-tls.ts'
import {
  endCallWithError,
  refuseNonGrpc,
  type ServeCall,
  serveServerStreaming,
  serveUnary,
  type Unary,
} from './call.ts'
import { createHealth } from './health.ts'
import { Connection } from './http2/connection.ts'
import { type ConnectionLimits, defaultLimits } from './http2/limits.ts'
import type { RequestHead } from './http2/request-head.ts'
import { ignoreStream, type Stream, type StreamHandler } from './http2/stream.ts'
import type { MessageForm } from './message-reader.ts'
import { CallError, grpcStatus } from './status.ts'

export interface GrpcMethods {
  /** By full path, `/package.Service/Method`. */
  readonly unary: Readonly<Record<string, Unary>>
  /** Called for each call of an unknown method, which gets UNIMPLEMENTED. */
  readonly onUnknown?: (path: string) => void
  /** Called for exceptions other than invalid messages. */
  readonly onFault: (error: unknown) => void
  /** For TCP addresses, plaintext if undefined; access to a Unix socket depends on its mode. */
  readonly tls?: ServerTls | undefined
  /** The gateway's mark on requests to models; calls that carry it are refused. */
  readonly hopMark?: string
  /** The limits of each connection; the usual ones by default. */
  readonly limits?: ConnectionLimits
}

export type GrpcServer = ReturnType<typeof createGrpcServer>

const mebibyte = 2 ** 20
/** gRPC's own default. */
const maxMessageBytes = 4 * mebibyte
/** Maximum number of bytes of all unfinished messages of one connection. */
const maxUnfinishedBytes = 64 * mebibyte
const unknownMethod = new CallError(grpcStatus.unimplemented, 'unknown method')

const loop = new CallError(
  grpcStatus.failedPrecondition,
  'the call comes from a model of this gateway whose address leads back to it',
)

const socketOptions = {
  noDelay: true,
  // Detects a peer whose machine is gone.
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
}

/** A server of these methods and of grpc.health.v1. */
export function createGrpcServer(methods: GrpcMethods) {
  const { onFault, tls, limits = defaultLimits, hopMark } = methods
  const health = createHealth()
  const serves = new Map<string, ServeCall>()
  for (const [path, unary] of Object.entries({ ...methods.unary, ...health.unary })) {
    serves.set(path, serveUnary(unary, onFault))
  }
  for (const [path, subscribe] of Object.entries(health.serverStreaming)) {
    serves.set(path, serveServerStreaming(subscribe, onFault))
  }

  const servers = new Set<Server>()
  /** All open sockets, including those before the TLS handshake has finished. */
  const sockets = new Set<Socket>()
  const connections = new Set<Connection>()
  let draining = false

  function open(stream: Stream, head: RequestHead, plain: MessageForm): StreamHandler {
    if (head.method !== 'POST') return refuseNonGrpc(stream, 405)
    if (!isGrpc(head.contentType)) return refuseNonGrpc(stream, 415)
    const serve = serves.get(head.path)
    const isLoop = head.hop !== undefined && head.hop === hopMark
    if (serve === undefined || isLoop) {
      if (!isLoop) methods.onUnknown?.(head.path)
      endCallWithError(stream, isLoop ? loop : unknownMethod)
      return ignoreStream
    }
    const { encoding } = head
    return serve(stream, head, encoding === undefined ? plain : { ...plain, encoding })
  }

  function accept(socket: Socket): void {
    const allowance = { left: maxUnfinishedBytes }
    const plain: MessageForm = { maxBytes: maxMessageBytes, encoding: undefined, allowance }
    const connection = new Connection(socket, {
      limits,
      open: (stream, head) => open(stream, head, plain),
      onFault,
    })
    connections.add(connection)
    socket.once('close', () => connections.delete(connection))
    if (draining) connection.drain()
  }

  async function listenAt(at: ListenOptions): Promise<number> {
    const server = at.path === undefined && tls ? serveTls(tls, accept) : servePlain(accept)
    server.on('connection', (socket: Socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    })
    server.listen(at)
    await once(server, 'listening')
    // From now on, errors are about connections that could not be accepted.
    server.on('error', onFault)
    servers.add(server)
    server.once('close', () => servers.delete(server))
    return at.path === undefined ? (server.address() as AddressInfo).port : 0
  }

  return {
    /** Listens on `host:port` or `unix:/path`; returns the port (0 for a path). */
    async listen(address: string): Promise<number> {
      let port: number | undefined
      let problem: unknown
      for (const at of await findListenAddresses(address)) {
        try {
          port = await listenAt(port === undefined ? at : { ...at, port })
        } catch (error) {
          if (!isNotHere(error)) throw error
          problem = error
        }
      }
      if (port === undefined) throw problem
      return port
    },
    /** Sets whether this process can serve, which the health service reports. */
    noteServing: health.note,
    /**
     * Reports NOT_SERVING, and meanwhile serves for `announceMs`, so that the health checks of connected clients learn
     * of it first. Then waits for calls to end, and closes, after `graceMs` in all.
     */
    async stop(graceMs: number, announceMs = 0): Promise<void> {
      health.drain()
      const force = setTimeout(() => {
        for (const socket of sockets) socket.destroy()
      }, graceMs)
      if (sockets.size > 0 && announceMs > 0) await delay(Math.min(announceMs, graceMs))
      draining = true
      const closed = [...servers].map((server) => once(server, 'close'))
      for (const server of servers) server.close()
      for (const connection of connections) connection.drain()
      await Promise.all(closed)
      clearTimeout(force)
    },
  }
}

type Accept = (socket: Socket) => void

function servePlain(accept: Accept): Server {
  return createServer(socketOptions, accept)
}

/** Closes connections of clients that do not request HTTP/2 by ALPN (RFC 9113, 3.2). */
function serveTls(tls: ServerTls, accept: Accept): TlsServer {
  const options = { ...socketOptions, ...tls.options, ALPNProtocols: ['h2'] }
  const server = createTlsServer(options, (socket) => {
    if (socket.alpnProtocol === 'h2') accept(socket)
    else socket.destroy()
  })
  tls.follow(server)
  return server
}

/** An address that this machine does not have: `localhost` without IPv6. */
function isNotHere(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT'
}

function isGrpc(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/grpc(\+proto)?\s*(;|$)/.test(contentType)
}

/** All addresses of `host:port` or `unix:/path`: a host name may have several. */
async function findListenAddresses(address: string): Promise<readonly ListenOptions[]> {
  if (address.startsWith('unix:')) return [{ path: address.slice('unix:'.length) }]
  const colon = address.lastIndexOf(':')
  const name = address.slice(0, colon).replace(/^\[(.*)\]$/, '$1')
  const port = Number(address.slice(colon + 1))
  const found = await lookup(name, { all: true })
  return [...new Set(found.map((one) => one.address))].map((host) => ({ host, port }))
}
