/** JSON schemas that several endpoints share, also used for the OpenAPI document. */

import type { FromSchema } from 'json-schema-to-ts'
import { capSchemas } from '../keys/key-caps.ts'
import { boolean, integer, object, optional, string, unnamed } from './schema.ts'

/** The envelope of every refusal (contract, 1.3). */
export const errorEnvelope = object('Refusal', {
  error: object('RefusalReason', {
    message: string('For people; may change.'),
    type: string('The class of the error.'),
    code: optional(string('For programs; stable.')),
  }),
})

const meanings = {
  400: 'The request is malformed; the message names the field and the mend.',
  401: 'The credential is missing or not valid.',
  403: 'The caller may not do this.',
  404: 'There is no such thing, or none that the caller may see.',
  413: 'The body is larger than 1 MiB.',
  422: 'This Idempotency-Key belongs to a request with another body.',
  429: 'Too many requests; retry-after says when to come back.',
  500: 'A fault of ours.',
  503: 'The key store is unavailable; retry after the time in retry-after.',
} as const

type Refusal = keyof typeof meanings

/** The refusals of an endpoint, for its `response` schema. */
export function refusals(
  ...statuses: readonly Refusal[]
): Record<number, typeof errorEnvelope & { readonly description: string }> {
  return Object.fromEntries(
    statuses.map((status) => [status, { ...errorEnvelope, description: meanings[status] }]),
  )
}

export const timestamp = string('RFC 3339, UTC, whole seconds.', {
  format: 'date-time',
  examples: ['2026-03-01T12:00:00Z'],
})

export const nullableTimestamp = { ...timestamp, type: ['string', 'null'] } as const

export const labelsSchema = {
  title: 'Labels',
  type: 'object',
  additionalProperties: { type: 'string' },
  description: 'Left out when empty.',
} as const

/** The secret that a rotation has replaced. */
export const previousSecret = {
  description: 'The replaced secret, while it still works.',
  ...object('PreviousSecret', {
    keyPrefix: optional(string('Left out where it is not known.')),
    endsAt: timestamp,
    lastUsedAt: optional({ ...timestamp, description: 'Left out if it was never used.' }),
  }),
} as const

/** A key's record (contract, 3.4); dates in both spellings. */
export const apiKeyRecord = object('ApiKey', {
  id: { type: 'string', format: 'uuid' },
  keyPrefix: optional(
    string(
      'The beginning of the key, fit for logs and to find it again. Left out where it is not known, as of keys taken over.',
      { examples: ['sk-tg-4fTr0b'] },
    ),
  ),
  name: { type: 'string' },
  description: optional(string('Left out when empty.')),
  labels: optional(labelsSchema),
  ...capSchemas,
  username: string('The owner.'),
  subscription: string('Name of the subscription that pays.'),
  creationDate: timestamp,
  createdAt: timestamp,
  expirationDate: nullableTimestamp,
  expiresAt: nullableTimestamp,
  expiresSoon: optional(
    boolean(
      'Left out unless true: the key ends within a tenth of its lifetime, and within 7 days.',
    ),
  ),
  status: {
    title: 'ApiKeyStatus',
    type: 'string',
    enum: ['active', 'revoked', 'expired'],
    description: 'The effective status: an active key past its expiry is expired.',
  },
  ephemeral: { type: 'boolean' },
  lastUsedAt: optional({
    ...timestamp,
    description: 'Left out until the key is used; after a rotation, until the new secret is.',
  }),
  previous: optional(previousSecret),
})

export type ApiKeyAnswer = FromSchema<typeof apiKeyRecord>

/** Whether every replica has applied a revocation; our addition to the contract. */
export const propagation = {
  description: 'Who knows of it, after at most a second of waiting for all.',
  ...object('Propagation', {
    state: string(
      'confirmed: no replica lets such a key pass any more, not even after a restored backup. pending: the other replicas learn of it, or stop serving, on their own.',
      { enum: ['confirmed', 'pending'] },
    ),
    replicas: integer('How many may be serving, the one that answers included.', {
      minimum: 1,
      examples: [2],
    }),
    acknowledged: { type: 'integer', minimum: 1, examples: [2] },
    waitingFor: optional({
      type: 'array',
      items: { type: 'string' },
      description:
        'Names of the replicas that have not said that they know, and of a revocation log that cannot be written; only when pending.',
    }),
  }),
} as const

export const keyIdParams = unnamed({ id: string("The key's id.") })
