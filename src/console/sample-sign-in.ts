/**
 * `/console/sign-in/sample`: a sample identity for the holder of the link that `npm start` prints. The sample's tokens
 * are public, so pages of other origins, from which a browser may send requests to this machine, must not be able to
 * use them either.
 */

import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest, ServiceError } from '../formats/errors.ts'
import { isLoopback } from '../formats/trustworthy.ts'

/** The identities of examples/tokens.csv that see different things. */
export const sampleUsers = ['alice', 'bob', 'admin'] as const

const schema = {
  hide: true,
  body: {
    type: 'object',
    required: ['code', 'user'],
    properties: {
      code: { type: 'string', minLength: 1, maxLength: 128 },
      user: { type: 'string', enum: sampleUsers },
    },
  },
} as const

/**
 * Refuses every request to the API whose Host is not this machine: a page under a name that was rebound to this machine
 * (DNS rebinding) has the origin of that name, and could read every response.
 */
export function refuseForeignHosts(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ url, headers: { host = '' } }) => {
    // Envoy's health check has the name of its cluster as its Host, and the response reveals nothing.
    if (url === '/health') return
    if (isLoopback(URL.parse(`http://${host}`)?.hostname ?? '')) return
    throw invalidRequest(
      'Host must be this machine, such as 127.0.0.1 or localhost: the sample sign-in works only locally.',
    )
  })
}

/** Adds the route. `countAttempt` throws if no attempt is allowed yet. */
export function signInToSample(
  app: FastifyInstance,
  code: string,
  countAttempt: (request: FastifyRequest, reply: FastifyReply) => void,
): void {
  app.post<{ Body: FromSchema<typeof schema.body> }>(
    '/console/sign-in/sample',
    { schema },
    async (request, reply) => {
      const { host, origin, 'sec-fetch-site': site } = request.headers
      if (site !== 'same-origin' || origin !== `http://${host}`) {
        throw invalidRequest(
          'Origin and Sec-Fetch-Site must show that the request comes from the console itself.',
        )
      }
      countAttempt(request, reply)
      if (!isSame(request.body.code, code)) throw new ServiceError('credential_invalid')
      reply.header('cache-control', 'no-store')
      return { token: `${request.body.user}-token` }
    },
  )
}

/** In constant time. */
function isSame(one: string, other: string): boolean {
  return timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'))
}
