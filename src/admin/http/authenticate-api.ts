/** onRequest: credential → request.caller, before any of the body is read. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { denialMessage } from '../../decide/refusal-message.ts'
import { refuseAddress } from '../../decide/steps/address.ts'
import { networkOf } from '../../formats/cidr.ts'
import { ServiceError } from '../../formats/errors.ts'
import {
  type Authenticate,
  credentialOf,
  hasNoCredential,
  type PresentedHeaders,
} from '../../identity/authenticate.ts'
import type { Caller, KeyCaller } from '../../identity/rules/caller.ts'
import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import { rateLimitKey, revocationRateLimitKey } from './rate-limit-key.ts'
import { createRequestLimit, enforceWait, type RequestRate } from './request-limit.ts'
import { addressOf, gatewayAddressOf, trustPeers } from './trusted-proxies.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Set for routes that revoke keys: whether a request with a key ends that very key. */
    readonly endsOwnKey?: (request: FastifyRequest, caller: KeyCaller) => boolean
  }
  interface FastifyRequest {
    /** The caller; null on public routes. */
    caller: Caller | null
    /** The client's address, if the caller is a key that is bound to addresses. */
    boundAddress: string | undefined
    /** Whether address and rate limit are not checked yet, because the body may end the very key. */
    isUnchecked: boolean
  }
}

/** No body that names one key, or a user, has more bytes. */
const maxNaming = 16_384

/** RFC 6750, 3.1: without a credential, the challenge has no error. */
const bareChallenge = ['www-authenticate', 'Bearer'] as const

export interface CallerDeps {
  readonly authenticate: Authenticate
  readonly clock: () => number
  /** The rate limit of a share, and again of its revocations; none by default. */
  readonly rate?: RequestRate | undefined
  /** The rate limit of refused credentials from one address or IPv6 /64. */
  readonly addressRate?: RequestRate | undefined
  /** Addresses and networks whose `x-forwarded-for` is trusted: the gateway's. */
  readonly trustedProxies?: readonly string[] | undefined
  /** GATEWAY_TRUSTED_HOPS; none by default. */
  readonly gatewayTrustedHops?: number
}

/**
 * Requires a valid credential on every route of this scope, and the addresses that its key is bound to. Beyond the
 * limits requests get 429. A request that ends the key it is made with is refused for neither. A valid credential is
 * accepted from any address, because many people may share one.
 */
export function requireCaller(app: FastifyInstance, deps: CallerDeps): void {
  const { authenticate, clock, rate, addressRate, gatewayTrustedHops: trustedHops = 0 } = deps
  const trusts = trustPeers(deps.trustedProxies ?? [])
  const callers = rate && createRequestLimit(rate)
  const revocations = rate && createRequestLimit(rate)
  const networks = addressRate && createRequestLimit(addressRate)

  async function prove(request: FastifyRequest): Promise<Caller> {
    const credential = credentialOf(presentedBy(request))
    const caller = await authenticate(credential, clock(), () => addressOf(request))
    if (caller === null) throw new ServiceError('credential_invalid')
    return caller
  }

  app.decorateRequest('caller', null)
  app.decorateRequest('boundAddress', undefined)
  app.decorateRequest('isUnchecked', false)
  app.addHook('onRequest', async (request, reply) => {
    const now = clock()
    try {
      request.caller = await prove(request)
    } catch (error) {
      if (hasNoCredential(presentedBy(request))) reply.header(...bareChallenge)
      else if (isRefused(error)) {
        enforceWait(reply, networks?.take(networkOf(addressOf(request)), now))
      }
      throw error
    }
    request.isUnchecked = mayEndItself(request)
    if (!request.isUnchecked) admit(request, reply)
  })
  // Whether a revocation ends its own key may be in its body.
  app.addHook('preHandler', async (request, reply) => {
    if (!request.isUnchecked) return
    const caller = callerOf(request) as KeyCaller
    // If this throws, the error handler still finds the request unchecked.
    const isOwn = request.routeOptions.config.endsOwnKey?.(request, caller)
    request.isUnchecked = false
    if (!isOwn) admit(request, reply)
  })
  // A request that is refused before that ends no key.
  app.setErrorHandler((error, request, reply) => {
    if (request.isUnchecked) {
      request.isUnchecked = false
      admit(request, reply)
    }
    throw error
  })

  function admit(request: FastifyRequest, reply: FastifyReply): void {
    const caller = callerOf(request)
    requireAddress(request, caller)
    enforceWait(reply, takeFrom(request, caller, clock()))
  }

  /** Before anything is counted: requests with a key from elsewhere take nothing from its owner's share. */
  function requireAddress(request: FastifyRequest, caller: Caller): void {
    if (capsOf(caller)?.networks === undefined) return
    request.boundAddress = gatewayAddressOf(request, trusts, trustedHops)
    const elsewhere = refuseAddress(caller, request.boundAddress ?? null)
    if (elsewhere === undefined) return
    throw new ServiceError(elsewhere.code, { message: denialMessage(elsewhere, clock()) as string })
  }

  /** Counts the request; the milliseconds until it may be repeated. */
  function takeFrom({ routeOptions }: FastifyRequest, caller: Caller, now: number) {
    return routeOptions.config.endsOwnKey === undefined
      ? callers?.take(rateLimitKey(caller), now)
      : revocations?.take(revocationRateLimitKey(caller), now)
  }
}

/** Whether a key may be ending itself, judged by the headers; a large body would not be read for that. */
function mayEndItself({ caller, headers, routeOptions }: FastifyRequest): boolean {
  if (caller?.by !== 'key' || routeOptions.config.endsOwnKey === undefined) return false
  const { 'transfer-encoding': coding, 'content-length': length = 0 } = headers
  return coding === undefined && Number(length) <= maxNaming
}

/** The headers of a request that may contain a credential. */
function presentedBy({ headers, raw: { rawHeaders } }: FastifyRequest): PresentedHeaders {
  // Node joins repeated headers with commas, which no key contains; but of this one it has only the first.
  const values = rawHeaders.filter(
    (value, i) => i % 2 === 1 && /^authorization$/i.test(rawHeaders[i - 1] ?? '') && value !== '',
  )
  const authorization = values.length === 0 ? undefined : values.join(', ')
  return { authorization, apiKey: headers['x-api-key']?.toString() }
}

/** The credential that a request of a caller is made with, for a request of ours in its name. */
export function bearerOf(request: FastifyRequest): string {
  return `Bearer ${credentialOf(presentedBy(request))}`
}

/** Whether this is the credential that the request is made with. */
export function isPresented(request: FastifyRequest, credential: string): boolean {
  return credentialOf(presentedBy(request)) === credential
}

function isRefused(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'credential_invalid'
}

/** Refuses keys; `what`: what only an identity token may do. */
export function requireToken({ by }: Caller, what: string): void {
  const message = `An API key cannot ${what}; use an identity token.`
  if (by !== 'token') throw new ServiceError('identity_token_required', { message })
}

/** The caller of a route behind `requireCaller`. */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new ServiceError('credential_invalid')
  return request.caller
}
