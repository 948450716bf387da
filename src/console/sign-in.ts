/** `/console/sign-in`: the ways to sign in, and the exchange of a provider's code for a token. */

import { hash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest, ServiceError } from '../formats/errors.ts'
import type { CodeFlow } from '../identity/oidc/code-flow.ts'
import { createFairLimiter } from '../runtime/fair-limiter.ts'
import { sampleUsers, signInToSample } from './sample-sign-in.ts'

export interface SignInDeps {
  /** The providers in force. */
  readonly codeFlows: () => readonly CodeFlow[]
  /** The gateway's public address, without a trailing slash. */
  readonly gatewayUrl: string
  /** The provider in the settings, or undefined if there is none. */
  readonly ownIssuer: string | undefined
  /** Display names of providers, by issuer. */
  readonly displayNames: ReadonlyMap<string, string> | undefined
  /** Whether the page may store an identity token in its tab. */
  readonly keepsToken: boolean
  /** The code that signs in to the sample of `npm start`; undefined without the sample. */
  readonly sampleCode: string | undefined
  /** Counts an attempt for the address of the request; throws if none is allowed yet. */
  readonly countAttempt: (request: FastifyRequest, reply: FastifyReply) => void
  /** The network of the request; each network has one exchange at a time. */
  readonly networkOf: (request: FastifyRequest) => string
}

/**
 * Exchanges: callers are not authenticated yet, and each exchange calls the provider. Networks take turns, so that one
 * that guesses codes does not block the others, even if the provider is slow.
 */
const exchanges = {
  atOnce: 10,
  oneEach: true,
  timeoutMs: 10_000,
  refusal: () => new ServiceError('identity_unavailable', { message: tooMany }),
} as const
const tooMany = 'Too many sign-ins are in progress; begin again.'

const schema = {
  hide: true,
  body: {
    type: 'object',
    required: ['issuer', 'code', 'verifier'],
    properties: {
      issuer: { type: 'string', maxLength: 1_024 },
      code: { type: 'string', minLength: 1, maxLength: 4_096 },
      verifier: { type: 'string', pattern: '^[\\w.~-]{43,128}$' },
    },
  },
} as const

/** Adds the routes. The page puts state and challenge into the address of a provider. */
export function signIn(app: FastifyInstance, deps: SignInDeps): void {
  const { codeFlows, gatewayUrl, ownIssuer, countAttempt, displayNames, keepsToken, sampleCode } =
    deps
  const inTurn = createFairLimiter(exchanges)

  /**
   * Each provider has its own redirect address, so that the page knows which one sent the browser back. Otherwise an
   * attacker could begin a sign-in at another one and get its code (RFC 9700, 4.4).
   */
  function redirectUriOf(issuer: string): string {
    const own = `${gatewayUrl}/console/signed-in`
    return issuer === ownIssuer ? own : `${own}/${hash('sha256', issuer, 'hex').slice(0, 32)}`
  }

  if (sampleCode !== undefined) signInToSample(app, sampleCode, countAttempt)
  app.get('/console/sign-in', { schema: { hide: true } }, async (_request, reply) => {
    reply.header('cache-control', 'no-store')
    const nameOf = ({ issuer }: CodeFlow) => displayNames?.get(issuer) ?? new URL(issuer).host
    const unavailable = codeFlows().filter((flow) => !flow.isDiscovered())
    return {
      keepsToken,
      ...(unavailable.length > 0 && { unavailable: unavailable.map(nameOf) }),
      ...(sampleCode !== undefined && { sampleUsers }),
      providers: codeFlows().flatMap((flow) => {
        const page = flow.pageFor(redirectUriOf(flow.issuer))
        if (page === undefined) return []
        return { issuer: flow.issuer, name: nameOf(flow), page }
      }),
    }
  })
  app.post<{ Body: FromSchema<typeof schema.body> }>(
    '/console/sign-in',
    { schema },
    async (request, reply) => {
      const { issuer, code, verifier } = request.body
      const flow = codeFlows().find((each) => each.issuer === issuer)
      if (flow === undefined) {
        throw invalidRequest('issuer must be one of the configured providers.')
      }
      countAttempt(request, reply)
      reply.header('cache-control', 'no-store')
      const exchange = () => flow.exchange(code, verifier, redirectUriOf(issuer))
      return { token: await inTurn(deps.networkOf(request), exchange) }
    },
  )
}
