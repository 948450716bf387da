/** TLS of an HTTP listener, where Node leaves something to us. */

import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import { sendError } from './errors.ts'

/** Refuses (403) on every route of this scope whoever has shown no certificate of our authorities. */
export function requireCertificate(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ raw }, reply) => {
    const socket = raw.socket as TLSSocket
    // A resumed session that began without a certificate has none either.
    const hasShown = socket.authorized && Object.keys(socket.getPeerCertificate()).length > 0
    // Sent here: a route may have answers of its own for what is thrown.
    if (!hasShown) return sendError(reply, 'client_certificate_required')
  })
}

/** Has `closeAllConnections` end connections too that are still about their handshake. */
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
