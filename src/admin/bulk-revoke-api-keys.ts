/** `POST /v1/api-keys/bulk-revoke` (contract, 3.6). */

import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../core/decision/errors.ts'
import { addToOutcome, intend } from './audit.ts'
import { callerOf } from './authenticate.ts'
import { type BodyOf, requirePlainText } from './body.ts'
import { orUnsure, type RevokeDeps } from './propagation.ts'
import { propagation as propagationSchema, refusals } from './schemas.ts'

const schema = {
  operationId: 'bulkRevokeApiKeys',
  summary: 'Revoke all API keys of a user',
  description:
    'All your active keys, ephemeral ones too; an administrator may name another user. Keys that are revoked or expired already are left as they are. Answered when every replica knows of it, or after a second: `propagation` says which.',
  tags: ['API keys'],
  body: {
    title: 'BulkRevocation',
    type: ['object', 'null'],
    properties: {
      username: {
        type: ['string', 'null'],
        description: 'The owner; yourself when blank or left out, as the body may be too.',
        examples: ['alice'],
      },
    },
  },
  response: {
    200: {
      title: 'BulkRevoked',
      description: 'Done, even if there was nothing to revoke.',
      type: 'object',
      required: ['revokedCount', 'message', 'propagation'],
      properties: {
        revokedCount: { type: 'integer', minimum: 0, examples: [3] },
        message: { type: 'string', examples: ['Revoked 3 API keys of user alice.'] },
        propagation: propagationSchema,
      },
    },
    ...refusals(400, 401, 403, 413, 429, 500, 503),
  },
} as const

/** Adds the route. Of concurrent calls, one counts each key. */
export function bulkRevokeApiKeys(app: FastifyInstance, deps: RevokeDeps): void {
  const { keys, isAdmin, clock, propagation } = deps
  app.post<{ Body: BodyOf<typeof schema.body> }>(
    '/v1/api-keys/bulk-revoke',
    { schema, config: { audit: 'key.bulk_revoke' } },
    async (request) => {
      const caller = callerOf(request)
      const username = request.body?.username ?? undefined
      requirePlainText('username', username)
      const owner = username?.trim() ? username : caller.user
      addToOutcome(request, { user: owner })
      if (owner !== caller.user && !(await isAdmin(caller))) {
        throw new ServiceError('admin_required')
      }
      await intend(request, { user: owner })
      const revoked = await orUnsure(keys.revokeAll(owner, clock()))
      const revokedCount = revoked.length
      addToOutcome(request, {}, revokedCount)
      const what = revokedCount === 1 ? '1 API key' : `${revokedCount} API keys`
      // Also if there was nothing left to revoke: the response to an earlier call may have been
      // lost.
      const message = `Revoked ${what} of user ${owner}.`
      return { revokedCount, message, propagation: await propagation(revoked) }
    },
  )
}
