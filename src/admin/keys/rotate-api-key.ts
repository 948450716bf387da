/** `POST /v1/api-keys/{id}/rotate` (contract, 3.4): a new secret for a key. */

import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest } from '../../formats/errors.ts'
import { parseOverlap } from '../../keys/rules/key-lifetime.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, recordIntent } from '../http/audit.ts'
import { callerOf, requireToken } from '../http/authenticate-api.ts'
import type { BodyOf } from '../http/body.ts'
import { typeInDocument } from '../http/named-schemas.ts'
import { responses, string } from '../http/schema.ts'
import { apiKeySchema, keyIdParams, toApiKeyJson } from './api-key-record.ts'
import {
  idempotencyHeaders,
  idempotencyRefusals,
  refuseRepeated,
  runOnce,
} from './idempotency-key.ts'
import { actOnKey, isUuid, requireKey } from './key-access.ts'
import { newSecret } from './new-secret.ts'
import { orUnsure, propagationSchema } from './propagation.ts'

const schema = {
  operationId: 'rotateApiKey',
  summary: 'Give an API key a new secret',
  description:
    'Your own active key, or any for an administrator. Needs an identity token. Everything but the secret stays the same, including the id. The current secret works for `overlap` longer; one that was replaced before ends at once. The plaintext is only in this response; if that is lost, repeat the request with its Idempotency-Key.',
  tags: ['API keys'],
  security: [{ identityToken: [] }],
  params: keyIdParams,
  headers: idempotencyHeaders,
  body: {
    title: 'Rotation',
    type: ['object', 'null'],
    properties: {
      overlap: {
        [typeInDocument]: ['string', 'number', 'null'],
        description:
          'How long the current secret works, as in expiresIn; at most 7d, and not longer than the key. By default it ends at once.',
        examples: ['24h', 0],
      },
      endOldAfterFirstUse: {
        [typeInDocument]: ['string', 'number', 'null'],
        description:
          'Within the overlap, how long the current secret works after the first use of the new one, which is noticed within a minute.',
        examples: ['1h'],
      },
    },
  },
  response: {
    ...responses('The record with the new key.', [400, 404, 413], 'RotatedApiKey', {
      key: string('The plaintext of the key; only this response has it.'),
      ...apiKeySchema.properties,
      propagation: propagationSchema,
    }),
    ...idempotencyRefusals,
  },
} as const

/** The response. */
export type RotatedApiKey = FromSchema<(typeof schema.response)[200]>

const unsure =
  'The key store did not respond: the key may or may not have a new secret. Rotate it again, with the same Idempotency-Key if there is one.'

/** Adds the route. An ended key, another user's and an unknown one get the same response. */
export function rotateApiKey(app: Api, deps: ExternalDeps): void {
  const { keys, isAdmin, clock, propagation, keyMarker } = deps
  const config = { audit: 'key.rotate' } as const
  app.post('/v1/api-keys/:id/rotate', { schema, config }, async (request, reply) => {
    const caller = callerOf(request)
    requireToken(caller, 'rotate API keys')
    const times = readTimes(request.body ?? {})
    const { id } = request.params
    requireKey(isUuid(id) ? id : undefined)
    const now = clock()
    const { secret, shown } = newSecret(keyMarker)
    reply.header('cache-control', 'no-store')
    return await runOnce(request, deps, async ({ attempt, made }) => {
      await recordIntent(request, { keyId: id })
      const renewal = { ...secret, ...times, attempt, unused: made?.hash }
      const rotate = (owner: string | undefined) =>
        orUnsure(keys.rotate(id, owner, renewal, now), unsure)
      const mayRotate = async (owner: string) => owner === caller.user || (await isAdmin(caller))
      const rotated = await actOnKey(caller, isAdmin, rotate)
      if (rotated === undefined && made !== undefined) {
        const record = await keys.findById(id)
        if (record && (await mayRotate(record.user))) return refuseRepeated(reply, record, now)
      }
      const { record, replaced } = requireKey(rotated)
      addToOutcome(request, { user: record.user, subscription: record.subscription })
      // The prefix is longer than the record's, as in the response to a creation.
      return { ...toApiKeyJson(record, now), ...shown, propagation: await propagation([replaced]) }
    })
  })
}

function readTimes({ overlap, endOldAfterFirstUse }: NonNullable<BodyOf<typeof schema.body>>) {
  const overlapMs = parseOverlap('overlap', overlap) ?? 0
  const endAfterFirstUseMs = parseOverlap('endOldAfterFirstUse', endOldAfterFirstUse)
  if (overlapMs === 0 && endAfterFirstUseMs !== undefined) {
    const message = 'endOldAfterFirstUse needs an overlap, which it can only shorten.'
    throw invalidRequest(message)
  }
  return { overlapMs, endAfterFirstUseMs }
}
