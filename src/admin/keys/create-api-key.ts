/** `POST /v1/api-keys` (contract, 3.2). */

import { randomUUID } from 'node:crypto'
import type { FromSchema } from 'json-schema-to-ts'
import { selectForKey } from '../../decide/subscription-selection.ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import type { ApiKeyRecord } from '../../keys/rules/api-key.ts'
import { expiryOf, maxLifetimeDays } from '../../keys/rules/key-lifetime.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { recordIntent } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { type BodyOf, requirePlainText } from '../http/body.ts'
import { typeInDocument } from '../http/named-schemas.ts'
import { labelsSchema, object, optional, refusals, string, timestamp } from '../http/schema.ts'
import { toApiKeyJson } from './api-key-record.ts'
import {
  idempotencyHeaders,
  idempotencyRefusals,
  refuseRepeated,
  runOnce,
} from './idempotency-key.ts'
import { capFields, capSchemas, readCaps } from './key-caps.ts'
import { descriptionField, labelsField, nameField, readLabels, readName } from './key-fields.ts'
import { newSecret } from './new-secret.ts'
import { orUnsure, propagationSchema } from './propagation.ts'

/** `lifetime` validates `expiresIn`, with better messages than a schema. */
const schema = {
  operationId: 'createApiKey',
  summary: 'Create an API key',
  description:
    'Needs an identity token; an API key cannot create API keys. The plaintext is only in this response.',
  tags: ['API keys'],
  security: [{ identityToken: [] }],
  headers: idempotencyHeaders,
  body: {
    title: 'NewApiKey',
    type: 'object',
    properties: {
      name: {
        ...nameField,
        description: `Required and not empty, unless the key is ephemeral. ${nameField.description}`,
      },
      description: descriptionField,
      labels: labelsField,
      ...capFields,
      subscription: {
        type: ['string', 'null'],
        description:
          'Bare name or namespace/name. By default your subscription with the highest priority.',
      },
      expiresIn: {
        [typeInDocument]: ['string', 'number', 'null'],
        description:
          'Seconds as a number, or "30d", "12h", "2h30m", "90m", "3600s". By default the maximum; an hour for an ephemeral key.',
        examples: ['30d', 3600],
      },
      ephemeral: {
        type: ['boolean', 'null'],
        description: 'Expires after an hour at most, and is deleted soon after.',
      },
    },
  },
  response: {
    201: {
      description: 'The key was created.',
      ...object('CreatedApiKey', {
        key: string('The plaintext of the key; only this response has it.'),
        keyPrefix: string(
          'Identifies the key; its record has the first six characters after the marker.',
        ),
        id: { type: 'string', format: 'uuid' },
        name: { type: 'string' },
        subscription: string('Bare name.'),
        createdAt: timestamp,
        expiresAt: timestamp,
        ephemeral: { type: 'boolean' },
        labels: optional(labelsSchema),
        ...capSchemas,
        propagation: optional({
          ...propagationSchema,
          description:
            'Only if the request was repeated: which replicas have applied the end of the first secret.',
        }),
      }),
    },
    ...idempotencyRefusals,
    ...refusals(400, 401, 403, 413, 429, 500, 503),
  },
} as const

/** The response. */
export type CreatedApiKey = FromSchema<(typeof schema.response)[201]>

/** Adds the route. Only its response ever contains the plaintext. */
export function createApiKey(app: Api, deps: ExternalDeps): void {
  const { keys, snapshot, clock } = deps
  const config = { audit: 'key.create' } as const
  app.post('/v1/api-keys', { schema, config }, async (request, reply) => {
    const caller = callerOf(request)
    if (caller.by !== 'token') throw new ServiceError('identity_token_required')
    const current = snapshot()
    const now = clock()
    const ephemeral = request.body.ephemeral ?? false
    const description = request.body.description ?? ''
    requirePlainText('description', description)
    const labels = readLabels('labels', request.body.labels)
    const name = nameOf(request.body, ephemeral)
    const expiresAt = expiryOf({
      expiresIn: request.body.expiresIn,
      ephemeral,
      maximumDays: maxLifetimeDays(current.tenant, deps.maxExpirationDays),
      now,
    })
    const requested = request.body.subscription?.trim() || undefined
    if (Buffer.byteLength(caller.user) > maxUserBytes) {
      const message = `Your user name is too long for API keys: ${Buffer.byteLength(caller.user)} bytes, at most ${maxUserBytes}.`
      throw invalidRequest(message)
    }
    const subscription = selectForKey(current, caller, requested).name
    const caps = readCaps(request.body, {}, subscription, current)

    const { secret, shown } = newSecret(deps.keyMarker)
    reply.header('cache-control', 'no-store')
    return await runOnce(request, deps, async ({ attempt, made }) => {
      if (made !== undefined) {
        const { keyId } = made
        await recordIntent(request, { keyId, user: caller.user, subscription })
        const renewal = { ...secret, ...noOverlap, attempt, unused: made.hash }
        const renewed = await orUnsure(keys.rotate(keyId, caller.user, renewal, now), unsure)
        if (renewed === undefined) return refuseRepeated(reply, await keys.findById(keyId), now)
        const propagation = await deps.propagation([renewed.replaced])
        reply.code(201)
        // The schema of the response selects the fields of the record.
        return { ...toApiKeyJson(renewed.record, now), ...shown, propagation }
      }
      const record: ApiKeyRecord = {
        id: randomUUID(),
        ...secret,
        user: caller.user,
        groups: caller.groups,
        name,
        description,
        labels,
        caps,
        subscription,
        status: 'active',
        ephemeral,
        createdAt: now,
        expiresAt,
        lastUsedAt: null,
      }
      await recordIntent(request, { keyId: record.id, user: record.user, subscription })
      await keys.insert(record, attempt, deps.maxKeysPerUser || undefined)
      reply.code(201)
      return { ...toApiKeyJson(record, now), ...shown }
    })
  })
}

/** Of an owner's name in UTF-8: the database's indexes take no more than 2,704 bytes, with the other columns. */
const maxUserBytes = 2_048

const noOverlap = { overlapMs: 0, endAfterFirstUseMs: undefined }

const unsure =
  'The key store did not respond: the secret may or may not have been replaced. Repeat the request.'

/** Required and non-empty, except for ephemeral keys, which get a generated name. */
function nameOf({ name }: BodyOf<typeof schema.body>, ephemeral: boolean): string {
  const given = readName(name)
  if (given !== undefined) return given
  if (!ephemeral) throw invalidRequest('name is required.')
  return `ephemeral-${process.hrtime.bigint() + epochOffsetNs}`
}

/** The offset from the monotonic clock to Unix nanoseconds, so that two simultaneous names differ. */
const epochOffsetNs = BigInt(Date.now()) * 1_000_000n - process.hrtime.bigint()
