/** `GET /v1/refusals`: what the gateway has refused the caller lately (contract, 3.15). */

import type { FastifyInstance } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import type { ExternalDeps } from '../deps.ts'
import { callerOf } from '../http/authenticate.ts'
import type { Written } from '../http/page.ts'
import { object } from '../http/schema.ts'
import { refusals } from '../http/schemas.ts'
import {
  ofAllProcesses,
  readRecentRefusals,
  refusalFields,
  refusalsQuery,
} from './recent-refusals.ts'

const schema = {
  operationId: 'listOwnRefusals',
  summary: 'List your last refusals',
  description: `Your model requests that were refused within the last hour, newest first; with a key only those of the key. ${ofAllProcesses}`,
  tags: ['Subscriptions'],
  querystring: refusalsQuery,
  response: {
    200: { description: 'The newest ones.', ...object('OwnRefusalList', refusalFields) },
    ...refusals(400, 401, 429, 500, 503),
  },
} as const

/** The answer. */
export type OwnRefusalList = FromSchema<(typeof schema.response)[200]>

/** Adds the route. Nobody sees those of others here, an administrator neither. */
export function listOwnRefusals(app: FastifyInstance, deps: ExternalDeps): void {
  app.get<{ Querystring: Written }>('/v1/refusals', { schema }, async (request) => {
    const caller = callerOf(request)
    const whose = { user: caller.user, ...(caller.by === 'key' && { keyId: caller.keyId }) }
    return (await readRecentRefusals(deps, request.query, whose)).list
  })
}
