/** `GET /v1/refusals`: what the gateway has refused the caller lately (contract, 3.15). */

import type { FastifyInstance } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import type { ExternalDeps } from '../deps.ts'
import { callerOf } from '../http/authenticate.ts'
import { pageQuery, readPage, type Written } from '../http/page.ts'
import { boolean, object } from '../http/schema.ts'
import { refusals } from '../http/schemas.ts'
import { pastRefusal, showPast } from './explain-view.ts'
import { readRecentRefusals } from './recent-refusals.ts'

const schema = {
  operationId: 'listOwnRefusals',
  summary: 'List your last refusals',
  description:
    'Your model requests that were refused within the last hour, newest first; with a key only those of the key. Each process remembers 100 of each user, and is asked. `POST /v1/explain` with a `requestId` says why, step by step.',
  tags: ['Subscriptions'],
  querystring: { type: 'object', properties: { limit: pageQuery.limit } },
  response: {
    200: {
      description: 'The newest ones.',
      ...object('OwnRefusalList', {
        object: { type: 'string', const: 'list' },
        data: { type: 'array', items: pastRefusal },
        complete: boolean('Whether all processes have answered.'),
      }),
    },
    ...refusals(400, 401, 429, 500, 503),
  },
} as const

/** The answer. */
export type OwnRefusalList = FromSchema<(typeof schema.response)[200]>

/** Adds the route. Nobody sees those of others here, an administrator neither. */
export function listOwnRefusals(app: FastifyInstance, deps: ExternalDeps): void {
  app.get<{ Querystring: Written }>('/v1/refusals', { schema }, async (request) => {
    const { limit } = readPage({ limit: request.query.limit })
    const caller = callerOf(request)
    const whose = { user: caller.user, ...(caller.by === 'key' && { keyId: caller.keyId }) }
    const { found, silent } = await readRecentRefusals(deps, limit, whose)
    return {
      object: 'list',
      data: found.map((past) => showPast(past, false)),
      complete: silent?.length === 0,
    }
  })
}
