/** Any error → status and envelope. Texts of decoders and the database never reach the client. */

import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FastifySchemaValidationError } from 'fastify/types/schema.js'
import type { RefusedRequest } from '../../decide/refused-request.ts'
import {
  type ErrorCode,
  errorBody,
  errorEntry,
  isFinalStatus,
  retryAfterOutage,
  ServiceError,
} from '../../formats/errors.ts'
import { bearerChallenge } from '../../formats/headers.ts'
import { quoteName } from '../../formats/redact.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { createLineLimit } from '../../runtime/line-limit.ts'
import type { MethodsOf } from './methods.ts'
import { pathTooLong } from './request-url.ts'
import { addressOf } from './trusted-proxies.ts'

/** Seconds after which some key may have ended. */
const retryAfterFull = '60'

/** An outage is logged at most once in this many milliseconds for each cause, however many requests it fails. */
const oneLineMs = 10_000

/** Hints for requests that one would expect to be served: the alternative. */
const insteadOf: Readonly<Record<string, string>> = {
  'GET /v1/api-keys': 'POST /v1/api-keys/search lists keys.',
}

/** Gives every refusal of this listener the same envelope. */
export function handleErrors(app: FastifyInstance, methodsOf: MethodsOf): void {
  app.decorateRequest('refusedWith', null)
  const outages = createLineLimit(oneLineMs)
  /** Number of similar lines that were suppressed, or undefined if this one is, too. A bug is always logged. */
  function passed(code: ErrorCode, cause: unknown): number | undefined {
    if (code === 'internal') return 0
    return outages.pass(`${code} ${errorMessage(cause)}`, performance.now())
  }

  app.setErrorHandler<FastifyError>((error, request, reply) => {
    const refusal = toRefusal(error)
    const { status } = errorEntry(refusal.code)
    if (status >= 500) {
      const cause = refusal.cause ?? error
      const { url: route } = request.routeOptions
      const unlogged = passed(refusal.code, cause)
      if (unlogged !== undefined) {
        request.log.error(
          { code: 'request_failed', err: cause, route, refusal: refusal.code, unlogged },
          'a request failed',
        )
      }
    }
    return sendError(reply, refusal.code, refusal.message)
  })
  const methodsFor = ({ url }: FastifyRequest) => methodsOf(url.replace(/\?.*$/s, ''))
  const refuseUnknown = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const isTooLong = request.originalUrl !== request.url
    const methods = isTooLong ? [] : methodsFor(request)
    if (methods.length > 0) reply.header('allow', methods.join(', '))
    if (request.method === 'OPTIONS') return reply.code(204).send()
    if (isTooLong) return sendError(reply, 'not_found', pathTooLong)
    if (methods.length === 0) return sendError(reply, 'not_found')
    const instead = insteadOf[`${request.method} ${request.url.replace(/\?.*$/s, '')}`]
    const { message } = errorEntry('method_not_allowed')
    return sendError(reply, 'method_not_allowed', instead && `${message} ${instead}`)
  }
  app.setNotFoundHandler(refuseUnknown)
  // Before the body: its errors do not matter if no route would read it.
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) return refuseUnknown(request, reply)
    // The router would take GET /v1/api-keys/search for a key "search"; that path supports only
    // POST.
    const isParameterized = request.routeOptions.url?.includes(':') === true
    if (isParameterized && !methodsFor(request).includes(request.method)) {
      return refuseUnknown(request, reply)
    }
  })
}

/** Responds with the envelope of a code. */
export function sendError(reply: FastifyReply, code: ErrorCode, message?: string): FastifyReply {
  const { status } = errorEntry(code)
  reply.request.refusedWith = code
  if (status === 401 && !reply.hasHeader('www-authenticate')) {
    reply.header('www-authenticate', bearerChallenge(message ?? errorEntry(code).message))
  }
  if (status === 503 || code === 'idempotency_busy') reply.header('retry-after', retryAfterOutage)
  // A client that repeats the request would be refused until a key ends.
  if (code === 'too_many_keys') reply.header('retry-after', retryAfterFull)
  if (isFinalStatus(status) || code === 'too_many_keys') reply.header('x-should-retry', 'false')
  return reply.code(status).send(errorBody(code, message))
}

function toRefusal(error: FastifyError | ServiceError): ServiceError {
  if (error instanceof ServiceError) return error
  if (error.validation !== undefined) {
    return new ServiceError('invalid_request', { message: validationMessage(error) })
  }
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new ServiceError('body_too_large')
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    return new ServiceError('invalid_request')
  }
  return new ServiceError('internal', { cause: error })
}

/** Characters of an unknown field's name in a message. */
const maxNameShown = 65

/** `name must be string.`: the field, the problem, and what is allowed. */
function validationMessage({ validation, validationContext }: FastifyError): string {
  const first = validation?.[0]
  const whole = validationContext === 'querystring' ? 'The query' : 'The body'
  const field = (first?.instancePath ?? '').slice(1).replaceAll('/', '.')
  if (first?.keyword === 'additionalProperties') {
    const { additionalProperty: unknown } = first.params
    const { parentSchema } = first as { parentSchema?: { properties?: object } }
    // Fields without a schema are accepted and ignored.
    const known = Object.entries(parentSchema?.properties ?? {}).flatMap(([name, schema]) =>
      Object.keys(schema).length > 0 ? name : [],
    )
    const quoted = quoteName(String(unknown))
    const name = quoted.length > maxNameShown ? `${quoted.slice(0, maxNameShown)}…"` : quoted
    const where = field === '' ? whole : field
    return `${where} has no field ${name}; it has ${known.join(', ')}.`
  }
  const what = first === undefined ? 'is not valid' : describeProblem(first)
  const { data } = (first ?? {}) as { data?: unknown }
  const isRepeated = validationContext === 'querystring' && Array.isArray(data)
  return `${field || whole} ${what}${isRepeated ? ', and given once' : ''}.`
}

/** Ajv's own text, except for rules whose text does not name the allowed values, or runs types together. */
function describeProblem({ keyword, message, ...rule }: FastifySchemaValidationError): string {
  const { parentSchema } = rule as {
    parentSchema?: { enum?: unknown[]; examples?: unknown[]; required?: string[] }
  }
  const needs = parentSchema?.required?.join(' and ')
  if (keyword === 'type' && message === 'must be object' && needs !== undefined)
    return `${message} with ${needs}`
  if (keyword === 'type') return message?.replaceAll(',', ' or ') ?? 'is not valid'
  const values = keyword === 'enum' ? parentSchema?.enum : parentSchema?.examples
  if ((keyword !== 'enum' && keyword !== 'pattern') || values === undefined) {
    return message ?? 'is not valid'
  }
  return `must be one of ${values.filter((value) => value !== null).join(', ')}`
}

/** Calls back for every refusal caused by the request; our own bugs are logged elsewhere. */
export function reportRefusals(
  app: FastifyInstance,
  onRefused: (refused: RefusedRequest) => void,
): void {
  app.addHook('onResponse', async (request) => {
    const { refusedWith: code, caller, method, routeOptions, headers } = request
    if (!code || errorEntry(code).status >= 500) return
    onRefused({
      code,
      caller: caller ?? null,
      method,
      route: routeOptions.url,
      address: addressOf(request),
      requestId: request.id,
      traceparent: headers.traceparent?.toString(),
    })
  })
}
