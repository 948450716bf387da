/** A key's record in responses (contract, 3.4): its schema, and how it is shown. */

import type { FromSchema } from 'json-schema-to-ts'
import { toTimestamp } from '../../formats/time.ts'
import { type ApiKeyRecord, endsSoon, keyStatuses, statusAt } from '../../keys/rules/api-key.ts'
import {
  boolean,
  labelsSchema,
  nullableTimestamp,
  object,
  optional,
  string,
  timestamp,
  untitledObject,
} from '../http/schema.ts'
import { capSchemas } from './key-caps.ts'

export const keyIdParams = untitledObject({ id: string("The key's id.") })

/** The secret that a rotation has replaced. */
const previousSecret = {
  description: 'The replaced secret, while it still works.',
  ...object('PreviousSecret', {
    keyPrefix: optional(string('Absent if unknown.')),
    endsAt: timestamp,
    lastUsedAt: optional({ ...timestamp, description: 'Absent if it was never used.' }),
  }),
} as const

/** A key's record (contract, 3.4); dates in both spellings. */
export const apiKeySchema = object('ApiKey', {
  id: { type: 'string', format: 'uuid' },
  keyPrefix: optional(
    string(
      'First characters of the key, for logs and searches. Absent if unknown, as for keys that were taken over.',
      { examples: ['sk-tg-4fTr0b'] },
    ),
  ),
  name: { type: 'string' },
  description: optional(string('Absent if empty.')),
  labels: optional(labelsSchema),
  ...capSchemas,
  username: string('The owner.'),
  subscription: string('Name of the subscription that pays.'),
  creationDate: timestamp,
  createdAt: timestamp,
  expirationDate: nullableTimestamp,
  expiresAt: nullableTimestamp,
  expiresSoon: optional(
    boolean('Present if true: the key expires within a tenth of its lifetime and within 7 days.'),
  ),
  status: {
    title: 'ApiKeyStatus',
    type: 'string',
    enum: keyStatuses,
    description: 'The effective status: an active key past its expiry is expired.',
  },
  ephemeral: { type: 'boolean' },
  lastUsedAt: optional({
    ...timestamp,
    description: 'Absent until the key is used; after a rotation, until the new secret is used.',
  }),
  previous: optional(previousSecret),
})

export type ApiKeyResponse = FromSchema<typeof apiKeySchema>

/** The record with its effective status; dates in both spellings, empty optional fields left out. */
export function toApiKeyJson(record: ApiKeyRecord, now: number): Record<string, unknown> {
  const createdAt = toTimestamp(record.createdAt)
  const expiresAt = record.expiresAt === null ? null : toTimestamp(record.expiresAt)
  const status = statusAt(record, now)
  return {
    id: record.id,
    ...(record.prefix !== null && { keyPrefix: record.prefix }),
    name: record.name,
    ...(record.description !== '' && { description: record.description }),
    ...(Object.keys(record.labels).length > 0 && { labels: record.labels }),
    ...record.caps,
    username: record.user,
    subscription: record.subscription,
    creationDate: createdAt,
    createdAt,
    expirationDate: expiresAt,
    expiresAt,
    ...(status === 'active' && endsSoon(record, now) && { expiresSoon: true }),
    status,
    ephemeral: record.ephemeral,
    ...(record.lastUsedAt !== null && { lastUsedAt: toTimestamp(record.lastUsedAt) }),
    ...toPreviousJson(record, now),
  }
}

/** The replaced secret, while it works. */
function toPreviousJson(record: ApiKeyRecord, now: number): Record<string, unknown> {
  const { previous } = record
  if (previous === undefined || previous.endsAt <= now || record.status !== 'active') return {}
  const { prefix, endsAt, lastUsedAt } = previous
  return {
    previous: {
      ...(prefix !== null && { keyPrefix: prefix }),
      endsAt: toTimestamp(endsAt),
      ...(lastUsedAt !== null && { lastUsedAt: toTimestamp(lastUsedAt) }),
    },
  }
}
