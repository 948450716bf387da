/** The shutdown of an HTTP listener to which proxies keep connections. */

import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import type { Api } from '../http/api.ts'

/**
 * How long idle connections stay open, so that their next use announces the shutdown
 * (milliseconds).
 */
const announceMs = 500

/**
 * Closes a listener. New connections are refused at once, so that a proxy goes elsewhere. On
 * existing ones the next response has `connection: close`, and a header that makes Envoy close its
 * idle connections and use another process. Idle connections are closed only after half a second,
 * because a request might be on its way, and the proxy could not know whether it was executed.
 * Requests still in progress after `graceMs` are cut off.
 */
export async function drain(app: Api, graceMs: number): Promise<void> {
  const { server } = app
  server.prependListener('request', (_request, response) => {
    response.setHeader('connection', 'close')
    response.setHeader('x-envoy-immediate-health-check-fail', 'true')
  })
  // Closing the listener resets connections that it has not accepted yet.
  await untilRead()
  const force = setTimeout(() => server.closeAllConnections(), graceMs)
  // Node and Fastify would both close idle connections first.
  const closeIdle = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {}
  const closed = app.close()
  if (server.listening) await delay(Math.min(announceMs, graceMs))
  // After a moment without a processor, timers run before what has arrived is read.
  await untilRead()
  server.closeIdleConnections = closeIdle
  closeIdle()
  await closed
  clearTimeout(force)
}

/** Resolves when everything that is in the sockets by now has been read: the second immediate follows a whole poll. */
async function untilRead(): Promise<void> {
  await turn()
  await turn()
}
