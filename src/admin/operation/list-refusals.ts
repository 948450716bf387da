/** `GET /v1/admin/refusals`: what the gateway has refused lately. */

import type { FastifyInstance } from 'fastify'
import type { ExternalDeps } from '../deps.ts'
import {
  ofAllProcesses,
  readRecentRefusals,
  refusalFields,
  refusalsQuery,
} from '../explain/recent-refusals.ts'
import { lookAtOthers, showOthers } from '../http/audit.ts'
import type { Written } from '../http/page.ts'
import { object, optional } from '../http/schema.ts'
import { refusals } from '../http/schemas.ts'

const schema = {
  operationId: 'listRefusals',
  summary: 'List the last refusals',
  description: `For administrators: model requests that were refused within the last hour, newest first. ${ofAllProcesses}`,
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  querystring: refusalsQuery,
  response: {
    200: {
      description: 'The newest ones.',
      ...object('RefusalList', {
        ...refusalFields,
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
      const { list, silent } = await readRecentRefusals(deps, request.query)
      lookAtOthers(request, {})
      await showOthers(request, list.data.length)
      return { ...list, ...(silent !== undefined && silent.length > 0 && { silent }) }
    },
  )
}
