/** The end of an HTTP listener that proxies keep connections to. */

import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

/** How long kept connections are given to be used once more and so be told (milliseconds). */
const tellingMs = 500

/**
 * Closes a listener. New connections are refused at once, which a proxy takes for a sign to go
 * elsewhere; on kept ones the next answer says `connection: close`, and to Envoy that this process is
 * about to end: it closes its idle connections and asks another one. Only after half a second are
 * idle ones closed: what we close might meet a request on its way, of which a proxy cannot know
 * whether it was done. What still runs after `graceMs` is cut off.
 */
export async function drain(app: FastifyInstance, graceMs: number): Promise<void> {
  const { server } = app
  server.prependListener('request', (_request, response) => {
    response.setHeader('x-envoy-immediate-health-check-fail', 'true')
  })
  const force = setTimeout(() => server.closeAllConnections(), graceMs)
  // Node and Fastify both begin by closing idle connections.
  const closeIdle = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {}
  const closed = app.close()
  if (server.listening) await delay(Math.min(tellingMs, graceMs))
  server.closeIdleConnections = closeIdle
  closeIdle()
  await closed
  clearTimeout(force)
}
