/** A key's record in responses (contract, 3.4). */

import type { Labels } from '../../formats/labels.ts'
import { toTimestamp } from '../../formats/timestamp.ts'
import { type ApiKeyRecord, endsSoon, statusAt } from '../../keys/rules/api-key.ts'

/**
 * The record with its effective status; dates in both spellings, empty optional fields left out.
 */
export function showRecord(record: ApiKeyRecord, now: number): Record<string, unknown> {
  const createdAt = toTimestamp(record.createdAt)
  const expiresAt = record.expiresAt === null ? null : toTimestamp(record.expiresAt)
  const status = statusAt(record, now)
  return {
    id: record.id,
    ...(record.prefix !== null && { keyPrefix: record.prefix }),
    name: record.name,
    ...(record.description !== '' && { description: record.description }),
    ...showLabels(record.labels),
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
    ...showPrevious(record, now),
  }
}

/** The replaced secret, while it works. */
export function showPrevious(record: ApiKeyRecord, now: number): Record<string, unknown> {
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

/** The field, left out if there are none. */
export function showLabels(labels: Labels): { readonly labels?: Labels } {
  return Object.keys(labels).length > 0 ? { labels } : {}
}
