/** The two HTTP listeners, built but not yet listening: the external API and the internal one. */

import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import { toEnvelope } from '../core/errors.ts'
import type { Authenticate } from '../identity/authenticate.ts'
import { requireCaller } from './authenticate.ts'
import { bodyLimit, readBodies } from './body.ts'
import { type CreateApiKeyDeps, createApiKey } from './create-api-key.ts'
import { answerErrors, sendError } from './errors.ts'
import { type GetApiKeyDeps, getApiKey } from './get-api-key.ts'
import { health } from './health.ts'
import { type ListResourcesDeps, listResources } from './list-resources.ts'
import { followMethods } from './methods.ts'
import { describeApi } from './openapi.ts'
import { type ProbeDeps, probes } from './probes.ts'
import { revokeApiKey } from './revoke-api-key.ts'

export interface AdminDeps extends CreateApiKeyDeps, GetApiKeyDeps {
  readonly authenticate: Authenticate
  readonly log: FastifyBaseLogger
}

export interface InternalDeps extends ProbeDeps, ListResourcesDeps {
  readonly log: FastifyBaseLogger
}

/** The external API: `/v1/…` and `/health`. */
export function buildAdmin(deps: AdminDeps): FastifyInstance {
  const app = createListener(deps.log)
  describeApi(app)
  app.register(async (scope) => health(scope))
  app.register(async (scope) => {
    requireCaller(scope, deps.authenticate, deps.clock)
    createApiKey(scope, deps)
    getApiKey(scope, deps)
    revokeApiKey(scope, deps)
  })
  return app
}

/** The internal listener: no route of the gateway leads here. */
export function buildInternal(deps: InternalDeps): FastifyInstance {
  const app = createListener(deps.log)
  probes(app, deps)
  listResources(app, deps)
  return app
}

/** Time-outs and sizes are the contract's (chapter 1). */
function createListener(log: FastifyBaseLogger): FastifyInstance {
  const app = Fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit,
    requestTimeout: 15_000,
    keepAliveTimeout: 60_000,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 512 },
    http: { headersTimeout: 5_000, connectionsCheckingInterval: 1_000, maxHeaderSize: 1_048_576 },
    // Exact types: "5" is no number, and nothing is dropped or filled in on the way.
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allowUnionTypes: true,
      },
    },
    frameworkErrors: (_error, _request, reply) => void sendError(reply, 'not_found'),
    clientErrorHandler: (error, socket) => {
      if (socket.writable) socket.end(rawRefusal(clientErrorStatus(error.code)))
    },
  })
  readBodies(app)
  answerErrors(app, followMethods(app))
  return app
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
