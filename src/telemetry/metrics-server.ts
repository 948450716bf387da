/** `GET /metrics` for Prometheus, and nothing else. */

import { createServer, type Server } from 'node:http'
import type { Telemetry } from './telemetry.ts'

/** Prometheus' own name for its text format; since version 3 it scrapes nothing without one. */
const contentType = 'text/plain; version=0.0.4; charset=utf-8'

/** A server that does not listen yet. `onFault` is told why a scrape failed; its answer is 500. */
export function createMetricsServer(
  { scrape }: Pick<Telemetry, 'scrape'>,
  onFault: (error: unknown) => void,
): Server {
  const server = createServer({ requestTimeout: 10_000 }, async (request, response) => {
    const path = request.url?.replace(/\?.*$/s, '')
    if (path !== '/metrics') {
      response.writeHead(404).end()
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, { allow: 'GET, HEAD' }).end()
    } else {
      try {
        const text = await scrape()
        response.writeHead(200, { 'content-type': contentType }).end(text)
      } catch (error) {
        onFault(error)
        response.writeHead(500).end()
      }
    }
  })
  server.maxConnections = 32
  return server
}
