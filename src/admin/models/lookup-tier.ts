/** `POST /v1/tiers/lookup` (contract, 3.9): for legacy clients. */

import type { FastifyError } from 'fastify'
import { ServiceError } from '../../formats/errors.ts'
import { lookupTier } from '../../models/rules/original/tiers.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { sendError } from '../http/error-handler.ts'
import { object, responses, string } from '../http/schema.ts'

const schema = {
  operationId: 'lookupTier',
  summary: 'Find the tier of some groups',
  description:
    'Legacy. The highest tier that includes any of the groups; limits do not depend on it.',
  tags: ['Subscriptions'],
  body: object('TierLookup', {
    groups: {
      type: 'array',
      minItems: 1,
      items: { type: 'string' },
      description: 'Names, compared exactly.',
      examples: [['premium-group', 'system:authenticated']],
    },
  }),
  response: responses('The tier.', [400, 404, 413], 'Tier', {
    tier: { type: 'string', examples: ['premium'] },
    displayName: string('Display name; the name of the tier if it has none.', {
      examples: ['Premium'],
    }),
  }),
} as const

const needsGroups = 'groups must be a list of at least one string.'

/** Adds the route. Its codes are the original's, in our envelope. */
export function lookUpTier(app: Api, { snapshot, instanceName }: ExternalDeps): void {
  app.post(
    '/v1/tiers/lookup',
    {
      schema,
      errorHandler(error: FastifyError, _request, reply) {
        const isBody = error instanceof ServiceError && error.code === 'invalid_body'
        if (error.validation === undefined && !isBody) throw error
        sendError(reply, 'bad_request', isBody ? error.message : needsGroups)
      },
    },
    async (request) => {
      const { tiers } = snapshot()
      if (tiers === undefined) {
        throw new ServiceError('internal_error', {
          message: 'The tier mapping (ConfigMap tier-to-group-mapping) is missing or not valid.',
        })
      }
      const tier = lookupTier(tiers, request.body.groups, instanceName)
      if (tier === undefined) {
        throw new ServiceError('not_found', { message: 'No tier includes any of these groups.' })
      }
      return { tier: tier.name, displayName: tier.displayName }
    },
  )
}
