/** onRequest: credential → request.caller, before any of the body is read. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../../core/decision/caller.ts'
import { ServiceError } from '../../core/decision/errors.ts'
import { networkOf } from '../../core/formats/network.ts'
import type { Authenticate } from '../../identity/authenticate.ts'
import { createRequestLimit, type Rate } from './request-limit.ts'
import { addressOf } from './trusted-proxies.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller; null on public routes. */
    caller: Caller | null
  }
}

/** RFC 6750, 3.1: without a credential, the challenge has no error. */
const bareChallenge = ['www-authenticate', 'Bearer'] as const

export interface CallerDeps {
  readonly authenticate: Authenticate
  readonly clock: () => number
  /** The rate limit of a caller over all its credentials; none by default. */
  readonly rate?: Rate | undefined
  /** The rate limit of refused credentials from one address or IPv6 /64. */
  readonly addressRate?: Rate | undefined
}

/**
 * Requires a valid credential on every route of this scope. Beyond the limits requests get 429. A
 * valid credential is accepted from any address, because many people may share one.
 */
export function requireCaller(app: FastifyInstance, deps: CallerDeps): void {
  const { authenticate, clock, rate, addressRate } = deps
  const callers = rate && createRequestLimit(rate)
  const networks = addressRate && createRequestLimit(addressRate)

  async function prove(request: FastifyRequest): Promise<Caller> {
    const { authorization, 'x-api-key': apiKey } = request.headers
    // Node joins repeated headers with commas, which no key contains.
    const presented = { authorization, apiKey: apiKey?.toString() }
    const caller = await authenticate(presented, clock(), () => addressOf(request))
    if (caller === null) throw new ServiceError('credential_invalid')
    return caller
  }

  app.decorateRequest('caller', null)
  app.addHook('onRequest', async (request, reply) => {
    const now = clock()
    try {
      request.caller = await prove(request)
    } catch (error) {
      const { authorization, 'x-api-key': apiKey } = request.headers
      if (authorization === undefined && apiKey === undefined) reply.header(...bareChallenge)
      else if (isRefused(error)) {
        admit(reply, networks?.take(networkOf(addressOf(request)), now))
      }
      throw error
    }
    admit(reply, callers?.take(request.caller.user, now))
  })
}

function isRefused(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'credential_invalid'
}

function admit(reply: FastifyReply, waitMs = 0): void {
  if (waitMs === 0) return
  reply.header('retry-after', Math.ceil(waitMs / 1_000))
  throw new ServiceError('too_many_requests')
}

/** The caller of a route behind `requireCaller`. */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new ServiceError('credential_invalid')
  return request.caller
}
