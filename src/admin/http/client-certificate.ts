/** TLS of an HTTP listener, where Node lacks something. */

import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import { sendError } from './error-handler.ts'

/** Refuses (403) callers without a certificate of our authorities, on every route of this scope. */
export function requireCertificate(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ raw }, reply) => {
    const socket = raw.socket as TLSSocket
    // A resumed session that began without a certificate has none either.
    const hasShown = socket.authorized && Object.keys(socket.getPeerCertificate()).length > 0
    // Sent here, because a route may convert errors that are thrown.
    if (!hasShown) return sendError(reply, 'client_certificate_required')
  })
}

/** Makes `closeAllConnections` also close connections that are still in their handshake. */
export function endHandshakes(server: Server): void {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  const closeAll = server.closeAllConnections.bind(server)
  server.closeAllConnections = () => {
    closeAll()
    for (const socket of sockets) socket.destroy()
  }
}
