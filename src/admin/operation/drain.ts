/** The shutdown of an HTTP listener to which proxies keep connections. */

import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import { clientHeader } from '../../formats/headers.ts'
import type { Api } from '../http/api.ts'

/** How long everything is still answered, so that each response announces the shutdown (milliseconds). */
export const drainAnnounceMs = 500
/** The longest wait for gateways to close their connections. */
const gatewaysMs = 3_000
const pollMs = 10

/** In responses of a process that shuts down; Envoy removes it. */
const announcement = 'x-envoy-immediate-health-check-fail'

/** Whether the process shuts down, as the response to be announces. */
export function isDraining(response: ServerResponse): boolean {
  return response.hasHeader(announcement)
}

/** Whether Envoy forwards the request for a client, whom it names. */
export function isFromGateway({ headers }: IncomingMessage): boolean {
  return headers[clientHeader] !== undefined
}

/** The open connections of gateways that have brought a client's request. */
export function followGateways(server: Server): ReadonlySet<Socket> {
  const gateways = new Set<Socket>()
  server.on('request', (request) => {
    const { socket } = request
    if (!isFromGateway(request) || gateways.has(socket)) return
    gateways.add(socket)
    socket.once('close', () => gateways.delete(socket))
  })
  return gateways
}

/**
 * Closes a listener. At first it still serves, but each response has `connection: close`, and a header that makes Envoy close its
 * idle connections and use another process. Only after half a second, and when no gateway has a connection left, are new
 * connections refused and idle ones closed: a request that is on its way there would be lost, and the proxy could not know
 * whether it was executed. An Envoy without a processor may send one long after the announcement. Requests still in
 * progress after `graceMs` are cut off.
 */
export async function drainServer(
  app: Api,
  graceMs: number,
  gateways: ReadonlySet<Socket> = new Set(),
): Promise<void> {
  const { server } = app
  const begunAt = performance.now()
  server.prependListener('request', (_request, response) => {
    response.setHeader('connection', 'close')
    response.setHeader(announcement, 'true')
  })
  const force = setTimeout(() => server.closeAllConnections(), graceMs)
  if (server.listening) await delay(Math.min(drainAnnounceMs, graceMs))
  const untilMs = Math.min(gatewaysMs, graceMs)
  while (gateways.size > 0 && performance.now() - begunAt < untilMs) await delay(pollMs)
  await untilRead(server)
  const closed = once(server, 'close')
  // Fastify would do so later, when more has arrived.
  server.close()
  await Promise.all([closed, app.close()])
  clearTimeout(force)
}

/** Node's own limit of connections that wait to be accepted. */
const backlog = 511

/**
 * Resolves when what has arrived is read, and no connection waits to be accepted: after a moment without a processor, timers
 * run first, and closing resets all of that. Each turn of the event loop accepts one connection, and the second immediate
 * follows a whole turn.
 */
async function untilRead(server: Server): Promise<void> {
  let accepted = 0
  server.on('connection', () => {
    accepted += 1
  })
  for (let before = -1; before < accepted && accepted < backlog; ) {
    before = accepted
    await turn()
    await turn()
  }
}
