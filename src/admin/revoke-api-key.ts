/** `DELETE /v1/api-keys/{id}` (contract, 3.4). */

import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../core/errors.ts'
import { showRecord } from './api-key-record.ts'
import { callerOf } from './authenticate.ts'
import { ignoreBodies } from './body.ts'
import { type GetApiKeyDeps, isKeyId, keyNotFound } from './get-api-key.ts'
import { apiKeyRecord, keyIdParams, refusals } from './schemas.ts'

const schema = {
  operationId: 'revokeApiKey',
  summary: 'Revoke an API key',
  description:
    'Your own active key, or any for an administrator. At once and for good; asking twice is 404.',
  tags: ['API keys'],
  params: keyIdParams,
  response: {
    200: { description: 'The record, now revoked.', ...apiKeyRecord },
    ...refusals(401, 404, 500, 503),
  },
} as const

/**
 * Adds the route. Revoked once is revoked for good: a second call, an expired key, an unknown id
 * and somebody else's key are one answer. A body is not looked at.
 */
export function revokeApiKey(app: FastifyInstance, { keys, isAdmin, clock }: GetApiKeyDeps): void {
  app.register(async (scope) => {
    ignoreBodies(scope)
    scope.delete<{ Params: { id: string } }>('/v1/api-keys/:id', { schema }, async (request) => {
      const caller = callerOf(request)
      const owner = isAdmin(caller) ? undefined : caller.user
      const now = clock()
      const { id } = request.params
      const revoked = isKeyId(id) ? await keys.revoke(id, owner, now) : undefined
      if (revoked === undefined) throw new ServiceError('not_found', { message: keyNotFound })
      return showRecord(revoked, now)
    })
  })
}
