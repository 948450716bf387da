/** onRequest: credential → request.caller, before a byte of the body is read. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../core/caller.ts'
import { ServiceError } from '../core/errors.ts'
import { networkOf } from '../core/network.ts'
import type { Authenticate } from '../identity/authenticate.ts'
import { createRequestLimit, type Rate } from './request-limit.ts'
import { addressOf } from './trusted-proxies.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks; null on routes that are open to everybody. */
    caller: Caller | null
  }
}

/** RFC 6750, 3.1: where there is no credential, nothing is said about one. */
const bareChallenge = ['www-authenticate', 'Bearer'] as const

export interface CallerDeps {
  readonly authenticate: Authenticate
  readonly clock: () => number
  /** How often one caller may ask, with whatever credential; as often as they like unless told. */
  readonly rate?: Rate | undefined
  /** How many refused credentials one address or IPv6 /64 may show. */
  readonly addressRate?: Rate | undefined
}

/**
 * Requires a believed credential on every route of this scope. Beyond the limits requests are answered
 * 429; a credential that is good opens its caller's requests wherever it is shown, since many people
 * may stand behind one address.
 */
export function requireCaller(app: FastifyInstance, deps: CallerDeps): void {
  const { authenticate, clock, rate, addressRate } = deps
  const callers = rate && createRequestLimit(rate)
  const networks = addressRate && createRequestLimit(addressRate)

  async function prove(request: FastifyRequest): Promise<Caller> {
    const { authorization, 'x-api-key': apiKey } = request.headers
    // Node joins a header that is repeated with commas, which no key holds.
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
