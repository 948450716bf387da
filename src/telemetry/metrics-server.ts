/** `GET /metrics` for Prometheus, and nothing else. */

import type { RequestListener, Server, ServerResponse } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import { type ErrorCode, errorBody, errorEntry, isFinalStatus } from '../formats/errors.ts'
import { hopHeader, isOwnHop } from '../formats/hop-mark.ts'
import { isFromWebPage } from '../formats/page-request.ts'
import { createServer } from '../runtime/node-http.ts'
import type { ServerTls } from '../tls/listener-tls.ts'
import type { Exposition } from './exposition.ts'

/** Prometheus' media type for its text format; Prometheus 3 requires one. */
const contentType = 'text/plain; version=0.0.4; charset=utf-8'

const limits = { requestTimeout: 10_000 }

/**
 * A server that does not listen yet. Calls `onFault` if a scrape fails, which returns 500. Refuses requests with the
 * gateway's `hopMark`, and requests of web pages.
 */
export function createMetricsServer(
  { scrape }: Pick<Exposition, 'scrape'>,
  onFault: (error: unknown) => void,
  tls?: ServerTls,
  hopMark?: string,
): Server {
  const listener: RequestListener = async (request, response) => {
    const path = request.url?.replace(/\?.*$/s, '')
    if (isOwnHop(request.headers[hopHeader], hopMark)) {
      refuse(response, 'loop_detected')
    } else if (isFromWebPage(request.headers, boundTo(server))) {
      refuse(response, 'local_only', 'Pages in a browser may not call this listener.')
    } else if (path !== '/metrics') {
      refuse(response, 'not_found')
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      refuse(response.setHeader('allow', 'GET, HEAD'), 'method_not_allowed')
    } else {
      try {
        const text = await scrape()
        response.writeHead(200, { 'content-type': contentType }).end(text)
      } catch (error) {
        onFault(error)
        refuse(response, 'internal')
      }
    }
  }
  const server: Server = tls
    ? createSecureServer({ ...tls.options, ...limits }, listener)
    : createServer(limits, listener)
  if (tls) tls.follow(server as SecureServer)
  server.maxConnections = 32
  return server
}

function refuse(response: ServerResponse, code: ErrorCode, message?: string): void {
  const { status } = errorEntry(code)
  if (isFinalStatus(status)) response.setHeader('x-should-retry', 'false')
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(JSON.stringify(errorBody(code, message)))
}

function boundTo(server: Server): string | undefined {
  const address = server.address()
  return typeof address === 'string' ? undefined : address?.address
}
