/** An HTTP listener without routes: its timeouts, its parsers, and what it refuses before there is a route. */

import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server as TlsServer } from 'node:tls'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  LogController,
} from 'fastify'
import type { AuditTrail } from '../../audit/trail.ts'
import type { RefusedRequest } from '../../decide/refused-request.ts'
import { errorBody } from '../../formats/errors.ts'
import { hopHeader, isOwnHop } from '../../formats/hop-mark.ts'
import { redact } from '../../formats/redact.ts'
import type { ServerTls } from '../../tls/listener-tls.ts'
import { auditRoutes } from './audit.ts'
import { bodyLimit, readBodies } from './body.ts'
import { endHandshakes } from './client-certificate.ts'
import { compileLater } from './compile-later.ts'
import { handleErrors, reportRefusals, sendError } from './error-handler.ts'
import { followMethods } from './methods.ts'
import { typeInDocument } from './named-schemas.ts'
import { boundPath, readQuery } from './request-url.ts'
import { type OpenRequestSpan, traceRequests } from './trace-requests.ts'
import { trustForwarded } from './trusted-proxies.ts'

export interface ListenerDeps {
  /** Called for each response; the route's pattern, empty if there is none. */
  readonly onResponse: (route: string, method: string, status: number, durationMs: number) => void
  readonly log: FastifyBaseLogger
  /** The gateway's mark; requests that carry it are refused. */
  readonly hopMark?: string
  /** Records what audited routes do. */
  readonly audit: AuditTrail
  /** Opens spans; none by default. */
  readonly openSpan?: OpenRequestSpan
  /** Called for each refusal that is not our own bug. */
  readonly onRefused: (refused: RefusedRequest) => void
  readonly times?: ListenerTimes
  /** Addresses and networks whose `x-forwarded-for` is trusted; none by default. */
  readonly trustedProxies?: readonly string[] | undefined
  /** Undefined for plaintext. */
  readonly tls?: ServerTls | undefined
}

/** Timeouts of a client for each part of a request, in milliseconds. */
export interface ListenerTimes {
  readonly header: number
  /** Header and body together. */
  readonly request: number
  /** Without any progress in sending the response. */
  readonly write: number
  /** Between two requests. */
  readonly idle: number
  /** How often Node checks the first two timeouts. */
  readonly check: number
}

/** Required by the contract (chapter 1). */
const contractTimes: ListenerTimes = {
  header: 5_000,
  request: 15_000,
  write: 30_000,
  idle: 60_000,
  check: 1_000,
}

export function createListener(deps: ListenerDeps): FastifyInstance {
  const { hopMark, audit, onResponse, onRefused, openSpan, tls } = deps
  const app = createServer(deps)
  traceRequests(app, openSpan)
  auditRoutes(app, audit)
  reportRefusals(app, onRefused)
  refuseEarly(app, hopMark)
  if (tls) {
    tls.follow(app.server as unknown as TlsServer)
    endHandshakes(app.server)
  }
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.is404 ? '' : (request.routeOptions.url ?? '')
    onResponse(route, request.method, reply.statusCode, reply.elapsedTime)
    done()
  })
  readBodies(app)
  handleErrors(app, followMethods(app))
  return app
}

function createServer({
  log,
  times = contractTimes,
  trustedProxies = [],
  tls,
}: ListenerDeps): FastifyInstance {
  const http = {
    headersTimeout: times.header,
    connectionsCheckingInterval: times.check,
    maxHeaderSize: 1_048_576,
    // Node's own refusal has no body.
    requireHostHeader: false,
  }
  return Fastify({
    loggerInstance: log,
    // So that client, gateway, service and model server use the same id for a request.
    genReqId: ({ headers }) => requestIdOf(headers['x-request-id']),
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: 'request_id',
    }),
    bodyLimit,
    trustProxy: trustForwarded(trustedProxies),
    requestTimeout: times.request,
    connectionTimeout: times.write,
    keepAliveTimeout: times.idle,
    forceCloseConnections: 'idle',
    // During a drain, existing connections still get a response, with `connection: close`.
    return503OnClosing: false,
    routerOptions: { maxParamLength: 512, querystringParser: readQuery },
    rewriteUrl: ({ url = '/' }) => boundPath(url),
    schemaController: { compilersFactory: compileLater },
    // Node's types do not express that a TLS server has everything used here.
    ...((tls ? { https: { ...http, ...tls.options } } : { http }) as { http: typeof http }),
    // Strict types: "5" is not a number, and nothing is dropped or filled in.
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        // Tests do this; here it would take a sixth of the time to build the listener.
        validateSchema: false,
        allowUnionTypes: true,
        keywords: [typeInDocument],
        // With the schema at hand, a refusal can name the allowed values.
        verbose: true,
      },
    },
    frameworkErrors(_error, { method }, reply: FastifyReply) {
      if (method === 'OPTIONS') void reply.code(204).send()
      else void sendError(reply, 'not_found')
    },
    clientErrorHandler: (error, socket) => {
      if (socket.writable) socket.end(rawRefusal(parserErrors[error.code] ?? malformed))
      else socket.destroy()
    },
  })
}

/** Refuses requests before anything acts on them. */
function refuseEarly(app: FastifyInstance, hopMark: string | undefined): void {
  // Node's own refusal of an unknown Expect has no body.
  app.server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const body = JSON.stringify(errorBody('invalid_request', 'Expect must be 100-continue.'))
    const type = 'application/json; charset=utf-8'
    response.writeHead(417, { 'content-type': type, 'content-length': body.length }).end(body)
  })
  app.addHook('onRequest', async ({ headers, raw }, reply) => {
    if (headers.host === undefined && raw.httpVersion === '1.1') {
      return sendError(reply, 'invalid_request', 'The request needs a Host header.')
    }
    if (isOwnHop(headers[hopHeader], hopMark)) return sendError(reply, 'loop_detected')
  })
}

/** The request's own id if usable, otherwise a new one. */
function requestIdOf(raw: string | readonly string[] | undefined): string {
  const isUsable = typeof raw === 'string' && /^[0-9A-Za-z._:-]{1,128}$/.test(raw)
  return isUsable ? redact(raw) : randomUUID()
}

/** An error before there is a request: the status line's end, and code and message as Envoy's. */
type ParserError = readonly [status: string, code: string, message: string]

const malformed: ParserError = ['400 Bad Request', 'bad_request', 'The request is malformed.']

/** By the codes of Node's parser. */
const parserErrors: Readonly<Record<string, ParserError>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [
    '408 Request Timeout',
    'request_timeout',
    'The request did not arrive in time.',
  ],
  HPE_HEADER_OVERFLOW: [
    '431 Request Header Fields Too Large',
    'headers_too_large',
    'The request headers are too large.',
  ],
}

function rawRefusal([status, code, message]: ParserError): string {
  const body = JSON.stringify({ error: { message, type: 'invalid_request_error', code } })
  return [
    `HTTP/1.1 ${status}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n')
}
