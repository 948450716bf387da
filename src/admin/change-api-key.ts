/** `PATCH /v1/api-keys/{id}` (contract, 3.4). */

import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../core/decision/errors.ts'
import type { KeyChanges } from '../store/api-keys.ts'
import { showRecord } from './api-key-record.ts'
import { addToOutcome, intend } from './audit.ts'
import { callerOf } from './authenticate.ts'
import { type BodyOf, requirePlainText } from './body.ts'
import { type GetApiKeyDeps, isKeyId, keyNotFound } from './get-api-key.ts'
import { descriptionField, labelsField, nameField, readLabels, readName } from './key-fields.ts'
import { apiKeyRecord, keyIdParams, refusals } from './schemas.ts'

const schema = {
  operationId: 'changeApiKey',
  summary: 'Change an API key',
  description:
    'Your own active key, or any for an administrator. Needs an identity token. What is left out stays.',
  tags: ['API keys'],
  security: [{ identityToken: [] }],
  params: keyIdParams,
  body: {
    title: 'ApiKeyChanges',
    type: 'object',
    additionalProperties: false,
    minProperties: 1,
    properties: {
      name: nameField,
      description: { ...descriptionField, description: 'null or empty: none.' },
      labels: { ...labelsField, description: 'All of them, instead of the present ones.' },
    },
  },
  response: {
    200: { description: 'The changed record.', ...apiKeyRecord },
    ...refusals(400, 401, 403, 404, 413, 429, 500, 503),
  },
} as const

/** Adds the route. An ended key, another user's and an unknown one get the same response. */
export function changeApiKey(app: FastifyInstance, { keys, isAdmin, clock }: GetApiKeyDeps): void {
  const config = { audit: 'key.change' } as const
  app.patch<{ Params: { id: string }; Body: BodyOf<typeof schema.body> }>(
    '/v1/api-keys/:id',
    { schema, config },
    async (request) => {
      const caller = callerOf(request)
      if (caller.by !== 'token') {
        const message = 'An API key cannot change API keys; use an identity token.'
        throw new ServiceError('identity_token_required', { message })
      }
      const changes = readChanges(request.body)
      const { id } = request.params
      if (!isKeyId(id)) throw new ServiceError('not_found', { message: keyNotFound })
      await intend(request, { keyId: id })
      const now = clock()
      const changed =
        (await keys.change(id, caller.user, changes, now)) ??
        ((await isAdmin(caller)) ? await keys.change(id, undefined, changes, now) : undefined)
      if (changed === undefined) throw new ServiceError('not_found', { message: keyNotFound })
      addToOutcome(request, { user: changed.user, subscription: changed.subscription })
      return showRecord(changed, now)
    },
  )
}

function readChanges({ name, description, labels }: BodyOf<typeof schema.body>): KeyChanges {
  requirePlainText('description', description ?? undefined)
  const named = readName(name)
  if (name !== undefined && named === undefined) {
    throw new ServiceError('invalid_request', { message: 'name must not be empty.' })
  }
  return {
    ...(named !== undefined && { name: named }),
    ...(description !== undefined && { description: description ?? '' }),
    ...(labels !== undefined && { labels: readLabels('labels', labels) }),
  }
}
