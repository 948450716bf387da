/** The shutdown of an HTTP listener to which proxies keep connections. */

import { once } from 'node:events'
import type { Server } from 'node:http'
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import type { Api } from '../http/api.ts'

/** How long everything is still answered, so that each response announces the shutdown (milliseconds). */
const announceMs = 500

/**
 * Closes a listener. At first it still serves, but each response has `connection: close`, and a header that makes Envoy close its
 * idle connections and use another process. Only after half a second are new connections refused and idle ones closed:
 * a request that is on its way there would be lost, and the proxy could not know whether it was executed. Requests still
 * in progress after `graceMs` are cut off.
 */
export async function drainServer(app: Api, graceMs: number): Promise<void> {
  const { server } = app
  server.prependListener('request', (_request, response) => {
    response.setHeader('connection', 'close')
    response.setHeader('x-envoy-immediate-health-check-fail', 'true')
  })
  const force = setTimeout(() => server.closeAllConnections(), graceMs)
  if (server.listening) await delay(Math.min(announceMs, graceMs))
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
