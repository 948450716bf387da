/** `DELETE /v1/api-keys/{id}` (contract, 3.4). */

import type { FastifyRequest } from 'fastify'
import type { KeyCaller } from '../../identity/rules/caller.ts'
import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, recordIntent } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { ignoreBodies } from '../http/body.ts'
import { responses } from '../http/schema.ts'
import { apiKeySchema, keyIdParams, toApiKeyJson } from './api-key-record.ts'
import { actOnKey, isUuid, requireKey } from './key-access.ts'
import { orUnsure, propagationSchema } from './propagation.ts'

/** The responses of a revocation, with these refusals. */
export function revocationResponses(...refused: Parameters<typeof responses>[1]) {
  const fields = { ...apiKeySchema.properties, propagation: propagationSchema }
  return responses('The record, now revoked.', refused, 'RevokedApiKey', fields)
}

const schema = {
  operationId: 'revokeApiKey',
  summary: 'Revoke an API key',
  description:
    'Your own active key, or any for an administrator; a key with caps revokes only itself. This cannot be undone; a second request is 404. The response is sent when every replica has applied it, or after a second: `propagation` says which.',
  tags: ['API keys'],
  params: keyIdParams,
  response: revocationResponses(404),
} as const

const unsure =
  'The key store did not respond: the key may or may not be revoked. Repeat the call; 404 then means that it is revoked.'

/**
 * Adds the route. A revoked key stays revoked: a second call, an expired key, an unknown id and
 * another user's key get the same response. The body is ignored.
 */
export function revokeApiKey(app: Api, deps: ExternalDeps): void {
  const { keys, isAdmin, clock, propagation, keyReach } = deps
  app.register(async (scope: Api) => {
    ignoreBodies(scope)
    const config = {
      audit: 'key.revoke',
      endsOwnKey: ({ params }: FastifyRequest, { keyId }: KeyCaller) =>
        (params as { id: string }).id === keyId,
    } as const
    scope.delete('/v1/api-keys/:id', { schema, config }, async (request) => {
      const caller = callerOf(request)
      const now = clock()
      const { id } = request.params
      const isOpen = isUuid(id) && id === (onlyKeyOf(caller, keyReach) ?? id)
      const revoke = (owner: string | undefined) => orUnsure(keys.revoke(id, owner, now), unsure)
      if (isOpen) await recordIntent(request, { keyId: id })
      const revoked = requireKey(isOpen ? await actOnKey(caller, isAdmin, revoke) : undefined)
      addToOutcome(request, { user: revoked.user, subscription: revoked.subscription })
      return { ...toApiKeyJson(revoked, now), propagation: await propagation([revoked]) }
    })
  })
}
