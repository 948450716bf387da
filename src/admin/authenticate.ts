/** onRequest: credential → request.caller, before a byte of the body is read. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Caller } from '../core/caller.ts'
import { ServiceError } from '../core/errors.ts'
import type { Authenticate } from '../identity/authenticate.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks; null on routes that are open to everybody. */
    caller: Caller | null
  }
}

/** RFC 6750, 3.1: where there is no credential, nothing is said about one. */
const bareChallenge = ['www-authenticate', 'Bearer'] as const

/** Requires a believed credential on every route of this scope. */
export function requireCaller(
  app: FastifyInstance,
  authenticate: Authenticate,
  clock: () => number,
): void {
  app.decorateRequest('caller', null)
  app.addHook('onRequest', async (request, reply) => {
    const { authorization, 'x-api-key': apiKey } = request.headers
    // Node joins a header that is repeated with commas, which no key holds.
    const presented = { authorization, apiKey: apiKey?.toString() }
    request.caller = await authenticate(presented, clock(), () => request.ip)
    if (request.caller !== null) return
    if (authorization === undefined && apiKey === undefined) reply.header(...bareChallenge)
    throw new ServiceError('credential_invalid')
  })
}

/** The caller of a route behind `requireCaller`. */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new ServiceError('credential_invalid')
  return request.caller
}
