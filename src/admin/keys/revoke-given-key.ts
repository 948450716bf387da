/** `POST /v1/api-keys/revoke`: lets anybody who has found a leaked key revoke it. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ServiceError } from '../../formats/errors.ts'
import { hashOfKey } from '../../keys/rules/api-key.ts'
import type { ExternalDeps } from '../deps.ts'
import { addToOutcome, intend } from '../http/audit.ts'
import { isPresented } from '../http/authenticate.ts'
import type { BodyOf } from '../http/body.ts'
import { object, string } from '../http/schema.ts'
import { addressOf } from '../http/trusted-proxies.ts'
import { showRecord } from './api-key-record.ts'
import { keyNotFound } from './get-api-key.ts'
import { orUnsure } from './propagation.ts'
import { revokedAnswers } from './revoke-api-key.ts'

const schema = {
  operationId: 'revokeGivenApiKey',
  summary: 'Revoke an API key by itself',
  description:
    'Any caller may: whoever holds a key in full can use it, so they may end it. At once and for good; a key that is unknown, expired or revoked already is 404. Of a key that was rotated, the replaced secret ends alone. The key is neither logged nor kept.',
  tags: ['API keys'],
  body: object('RevokeApiKeyRequest', {
    key: string('The plaintext.', { minLength: 1 }),
  }),
  response: revokedAnswers(400, 404, 413),
} as const

/**
 * Adds the route. Text that is not a key of ours is not looked up, and gets the response for an
 * unknown key.
 */
export function revokeGivenKey(app: FastifyInstance, deps: ExternalDeps): void {
  const { keys, clock, propagation, markers } = deps
  const config = {
    audit: 'key.revoke',
    endsOwnKey: (request: FastifyRequest) =>
      isPresented(request, (request.body as BodyOf<typeof schema.body>).key.trim()),
  } as const
  app.post<{ Body: BodyOf<typeof schema.body> }>(
    '/v1/api-keys/revoke',
    { schema, config },
    async (request) => {
      const now = clock()
      const hash = hashOfKey(request.body.key.trim(), markers)
      const found =
        hash === undefined ? undefined : await keys.findByHash(hash, () => addressOf(request))
      if (found === undefined) throw new ServiceError('not_found', { message: keyNotFound })
      await intend(request, { keyId: found.id })
      const revoked = await orUnsure(
        found.isPrevious && hash !== undefined
          ? keys.endPrevious(hash, now)
          : keys.revoke(found.id, undefined, now),
      )
      if (revoked === undefined) throw new ServiceError('not_found', { message: keyNotFound })
      addToOutcome(request, { user: revoked.user, subscription: revoked.subscription })
      return { ...showRecord(revoked, now), propagation: await propagation([revoked]) }
    },
  )
}
