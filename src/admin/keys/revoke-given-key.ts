/** `POST /v1/api-keys/revoke`: whoever has found a leaked key may revoke it. */

import type { FastifyRequest } from 'fastify'
import { hashOfKey } from '../../keys/rules/api-key.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, recordIntent } from '../http/audit.ts'
import { isPresented } from '../http/authenticate-api.ts'
import type { BodyOf } from '../http/body.ts'
import { object, string } from '../http/schema.ts'
import { addressOf } from '../http/trusted-proxies.ts'
import { toApiKeyJson } from './api-key-record.ts'
import { requireKey } from './key-access.ts'
import { orUnsure } from './propagation.ts'
import { revocationResponses } from './revoke-api-key.ts'

const schema = {
  operationId: 'revokeGivenApiKey',
  summary: 'Revoke an API key by itself',
  description:
    'For any caller: the holder of a key may revoke it. This cannot be undone; an unknown, expired or already revoked key is 404. If the key is a rotated secret, only that secret ends. The key is neither logged nor stored.',
  tags: ['API keys'],
  body: object('RevokeApiKeyRequest', {
    key: string('The plaintext.', { minLength: 1 }),
  }),
  response: revocationResponses(400, 404, 413),
} as const

/** Adds the route. Text that is not a key of ours is not looked up, and gets the response for an unknown key. */
export function revokeGivenKey(app: Api, deps: ExternalDeps): void {
  const { keys, clock, propagation, markers } = deps
  const config = {
    audit: 'key.revoke',
    endsOwnKey: (request: FastifyRequest) =>
      isPresented(request, (request.body as BodyOf<typeof schema.body>).key.trim()),
  } as const
  app.post('/v1/api-keys/revoke', { schema, config }, async (request) => {
    const now = clock()
    const hash = requireKey(hashOfKey(request.body.key.trim(), markers))
    const found = requireKey(await keys.findByHash(hash, () => addressOf(request)))
    await recordIntent(request, { keyId: found.id })
    // The cache may not know of a rotation yet, so the table decides which secret this is.
    const revoked = requireKey(
      (await orUnsure(keys.revoke(found.id, undefined, now, hash))) ??
        (await orUnsure(keys.endPrevious(hash, now))),
    )
    addToOutcome(request, { user: revoked.user, subscription: revoked.subscription })
    return { ...toApiKeyJson(revoked, now), propagation: await propagation([revoked]) }
  })
}
