/** `GET /v1/admin/refusals`: what the gateway has refused lately. */

import type { FastifyInstance } from 'fastify'
import type { ExternalDeps } from '../deps.ts'
import { pastRefusal, showPast } from '../explain/explain-view.ts'
import { readRecentRefusals } from '../explain/recent-refusals.ts'
import { lookAtOthers, showOthers } from '../http/audit.ts'
import { pageQuery, readPage, type Written } from '../http/page.ts'
import { boolean, object, optional } from '../http/schema.ts'
import { refusals } from '../http/schemas.ts'

const schema = {
  operationId: 'listRefusals',
  summary: 'List the last refusals',
  description:
    'For administrators: model requests that were refused within the last hour, newest first. Each process remembers 100 of each user, and is asked. `POST /v1/explain` with a `requestId` says why, step by step.',
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  querystring: { type: 'object', properties: { limit: pageQuery.limit } },
  response: {
    200: {
      description: 'The newest ones.',
      ...object('RefusalList', {
        object: { type: 'string', const: 'list' },
        data: { type: 'array', items: pastRefusal },
        complete: boolean('Whether all processes have answered.'),
        silent: optional({
          type: 'array',
          description:
            'The processes that have not; left out if the database did not say which there are.',
          items: { type: 'string' },
        }),
      }),
    },
    ...refusals(400, 401, 403, 429, 500, 503),
  },
} as const

/** Adds the route. */
export function listRefusals(app: FastifyInstance, deps: ExternalDeps): void {
  app.get<{ Querystring: Written }>(
    '/v1/admin/refusals',
    { schema, config: { audit: 'refusals.read' } },
    async (request) => {
      const { limit } = readPage({ limit: request.query.limit })
      const { found, silent } = await readRecentRefusals(deps, limit)
      lookAtOthers(request, {})
      await showOthers(request, found.length)
      return {
        object: 'list',
        data: found.map((past) => showPast(past, true)),
        complete: silent?.length === 0,
        ...(silent !== undefined && silent.length > 0 && { silent }),
      }
    },
  )
}
