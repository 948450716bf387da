/** The two HTTP listeners, built but not listening yet: the external API and the internal one. */

import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server as TlsServer } from 'node:tls'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  LogController,
} from 'fastify'
import type { AuditTrail } from '../audit/trail.ts'
import type { RefusedRequest } from '../decide/refused-request.ts'
import { toEnvelope } from '../formats/errors.ts'
import { hopHeader, isOwnHop } from '../formats/hop.ts'
import { isFromPage } from '../formats/page-request.ts'
import { redact } from '../formats/redact.ts'
import type { ServerTls } from '../tls/listener-tls.ts'
import type { ExternalDeps, OperatorDeps } from './deps.ts'
import { explainRequests } from './explain/explain.ts'
import { getMe } from './get-me.ts'
import type { Api, SchemaTypes } from './http/api.ts'
import { auditRoutes } from './http/audit.ts'
import { type CallerDeps, requireCaller } from './http/authenticate-api.ts'
import { bodyLimit, readBodies } from './http/body.ts'
import { endHandshakes, requireCertificate } from './http/client-certificate.ts'
import { compileLater } from './http/compile-later.ts'
import { handleErrors, reportRefusals, sendError } from './http/error-handler.ts'
import { followMethods } from './http/methods.ts'
import { typeInDocument } from './http/named-schemas.ts'
import { describeApi } from './http/openapi.ts'
import { boundPath, readQuery } from './http/request-url.ts'
import { requireAdministrator } from './http/require-administrator.ts'
import { type OpenRequestSpan, traceRequests } from './http/trace-requests.ts'
import { trustForwarded } from './http/trusted-proxies.ts'
import { increaseRoutes } from './increases/increases.ts'
import { limitDecisionRoutes } from './increases/limit-decisions.ts'
import { limitRequestRoutes } from './increases/limit-requests.ts'
import { bulkRevokeApiKeys } from './keys/bulk-revoke-api-keys.ts'
import { changeApiKey } from './keys/change-api-key.ts'
import { cleanupApiKeys } from './keys/cleanup-api-keys.ts'
import { createApiKey } from './keys/create-api-key.ts'
import { getApiKey } from './keys/get-api-key.ts'
import { keyConfig } from './keys/key-config.ts'
import { revokeApiKey } from './keys/revoke-api-key.ts'
import { revokeGivenKey } from './keys/revoke-given-key.ts'
import { rotateApiKey } from './keys/rotate-api-key.ts'
import { searchApiKeys } from './keys/search-api-keys.ts'
import { validateApiKey } from './keys/validate-api-key.ts'
import { listModels } from './models/list-models.ts'
import { listSubscriptions } from './models/list-subscriptions.ts'
import { lookUpTier } from './models/lookup-tier.ts'
import { selectSubscription } from './models/select-subscription.ts'
import { drainGateway } from './operation/drain-gateway.ts'
import { listAccess } from './operation/list-access.ts'
import { listOwnRefusals, listRefusals } from './operation/list-refusals.ts'
import { listResources, listResourcesToAdmins } from './operation/list-resources.ts'
import { logLevel } from './operation/log-level.ts'
import { health, probes } from './operation/probes.ts'
import { readState, type ServiceStateDeps } from './operation/read-state.ts'
import { counterRoutes } from './usage/counters.ts'
import { listLimitsOfCaller } from './usage/limits.ts'
import { listSharedLimits } from './usage/shared-limits.ts'
import { simulateResources } from './usage/simulate.ts'
import { getUsage } from './usage/usage.ts'

interface ListenerDeps {
  /** Called for each response; the route's pattern, empty if there is none. */
  readonly onResponse?: (route: string, method: string, status: number, durationMs: number) => void
  readonly log: FastifyBaseLogger
  /** The gateway's mark; requests that carry it are refused. */
  readonly hopMark?: string
  /** Records changes of keys; without it nothing is recorded. */
  readonly audit?: AuditTrail
  /** Opens spans; none by default. */
  readonly openSpan?: OpenRequestSpan
  /** Called for each refusal that is not our own bug. */
  readonly onRefused?: (refused: RefusedRequest) => void
  readonly times?: ListenerTimes
  /** Addresses and networks whose `x-forwarded-for` is trusted; none by default. */
  readonly trustedProxies?: readonly string[] | undefined
  /** Undefined for plaintext. */
  readonly tls?: ServerTls | undefined
}

export interface AdminDeps extends ListenerDeps, ExternalDeps, ServiceStateDeps, CallerDeps {}

interface InternalDeps extends ListenerDeps, OperatorDeps {
  /** Whether callers must have a certificate; probes, addresses and drain requests need none. */
  readonly asksCallers?: boolean
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

/** The external API: `/v1/…` and `/health`. */
export function buildAdmin(deps: AdminDeps): Api {
  const app = createListener(deps).withTypeProvider<SchemaTypes>()
  describeApi(app)
  app.register(async (scope) => health(scope))
  app.register(async (scope) => {
    requireCaller(scope, deps)
    createApiKey(scope, deps)
    getApiKey(scope, deps)
    revokeApiKey(scope, deps)
    revokeGivenKey(scope, deps)
    searchApiKeys(scope, deps)
    listModels(scope, deps)
    listSubscriptions(scope, deps)
    lookUpTier(scope, deps)
    bulkRevokeApiKeys(scope, deps)
    changeApiKey(scope, deps)
    rotateApiKey(scope, deps)
    keyConfig(scope, deps)
    getMe(scope, deps)
    explainRequests(scope, deps)
    listOwnRefusals(scope, deps)
    getUsage(scope, deps)
    scope.register(async (inner) => {
      requireAdministrator(inner, deps)
      listResourcesToAdmins(inner, deps)
      listRefusals(inner, deps)
      readState(inner, deps)
      listAccess(inner, deps)
      listSharedLimits(inner, deps)
      increaseRoutes(inner, deps)
      limitDecisionRoutes(inner, deps)
      simulateResources(inner, deps)
    })
    listLimitsOfCaller(scope, deps)
    limitRequestRoutes(scope, deps)
    counterRoutes(scope, deps)
  })
  return app
}

/** The internal listener, to which no route of the gateway leads. */
export function buildInternal(deps: InternalDeps): Api {
  const app = createListener(deps).withTypeProvider<SchemaTypes>()
  app.addHook('onRequest', async ({ headers }, reply) => {
    const message = 'Pages in a browser may not call this listener.'
    const { address } = (app.server.address() ?? {}) as { address?: string }
    if (isFromPage(headers, address)) return sendError(reply, 'local_only', message)
  })
  probes(app, deps)
  drainGateway(app, deps)
  app.register(async (scope) => {
    if (deps.asksCallers) requireCertificate(scope)
    listResources(scope, deps)
    selectSubscription(scope, deps)
    validateApiKey(scope, deps)
    cleanupApiKeys(scope, deps)
    logLevel(scope, deps)
  })
  return app
}

function createListener({
  log,
  hopMark,
  audit,
  onResponse,
  onRefused,
  openSpan,
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
  const app = Fastify({
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
      if (socket.writable) socket.end(rawRefusal(clientErrorStatus(error.code)))
      else socket.destroy()
    },
  })
  // Node's own refusal of an unknown Expect has no body.
  app.server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const body = JSON.stringify(toEnvelope('invalid_request', 'Expect must be 100-continue.'))
    const type = 'application/json; charset=utf-8'
    response.writeHead(417, { 'content-type': type, 'content-length': body.length }).end(body)
  })
  traceRequests(app, openSpan)
  auditRoutes(app, audit)
  reportRefusals(app, onRefused)
  // Before anything that acts on the request.
  app.addHook('onRequest', async ({ headers, raw }, reply) => {
    if (headers.host === undefined && raw.httpVersion === '1.1') {
      return sendError(reply, 'invalid_request', 'The request needs a Host header.')
    }
    if (isOwnHop(headers[hopHeader], hopMark)) return sendError(reply, 'loop_detected')
  })
  if (tls) {
    tls.follow(app.server as unknown as TlsServer)
    endHandshakes(app.server)
  }
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.is404 ? '' : (request.routeOptions.url ?? '')
    onResponse?.(route, request.method, reply.statusCode, reply.elapsedTime)
    done()
  })
  readBodies(app)
  handleErrors(app, followMethods(app))
  return app
}

/** The request's own id if usable, otherwise a new one. */
function requestIdOf(raw: string | readonly string[] | undefined): string {
  const isUsable = typeof raw === 'string' && /^[0-9A-Za-z._:-]{1,128}$/.test(raw)
  return isUsable ? redact(raw) : randomUUID()
}

/** Errors before there is a request: Node's parser names them by code. */
function clientErrorStatus(code: string): string {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return '408 Request Timeout'
  if (code === 'HPE_HEADER_OVERFLOW') return '431 Request Header Fields Too Large'
  return '400 Bad Request'
}

function rawRefusal(status: string): string {
  const body = JSON.stringify(toEnvelope('invalid_request', `${status.slice(4)}.`))
  return [
    `HTTP/1.1 ${status}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n')
}
