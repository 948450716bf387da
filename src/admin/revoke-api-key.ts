/** `DELETE /v1/api-keys/{id}` (contract, 3.4). */

import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../core/errors.ts'
import { showRecord } from './api-key-record.ts'
import { callerOf } from './authenticate.ts'
import { type GetApiKeyDeps, isKeyId, keyNotFound } from './get-api-key.ts'

/**
 * Adds the route. Revoked once is revoked for good: a second call, an expired key, an unknown id
 * and somebody else's key are one answer.
 */
export function revokeApiKey(app: FastifyInstance, { keys, isAdmin, clock }: GetApiKeyDeps): void {
  app.delete<{ Params: { id: string } }>('/v1/api-keys/:id', async (request) => {
    const caller = callerOf(request)
    const owner = isAdmin(caller) ? undefined : caller.user
    const now = clock()
    const { id } = request.params
    const revoked = isKeyId(id) ? await keys.revoke(id, owner, now) : undefined
    if (revoked === undefined) throw new ServiceError('not_found', { message: keyNotFound })
    return showRecord(revoked, now)
  })
}
