/** Rows of the table of keys, and what they stand for. */

import type { Labels } from '../formats/labels.ts'
import type { Fragment, Sql } from '../store/postgres/sql.ts'
import type { RevokedKey } from './revocations/revocation-log.ts'
import type { ApiKeyRecord, ApiKeyStatus, PreviousSecret } from './rules/api-key.ts'
import { compileCaps } from './rules/compiled-caps.ts'
import { type KeyCaps, parseStoredCaps } from './rules/key-caps.ts'
import type { FoundKey } from './store.ts'

/** The columns that a look-up of the request path reads. */
export interface FoundRow {
  readonly id: string
  readonly username: string
  readonly key_hash: string
  readonly status: ApiKeyStatus
  readonly user_groups: readonly string[]
  readonly subscription: string
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly revoked_at: Date | null
  readonly caps: unknown
  readonly is_previous?: boolean
  readonly is_replaceable?: boolean
}

/** A whole row. */
export interface KeyRow extends FoundRow {
  readonly name: string
  readonly description: string | null
  readonly ephemeral: boolean
  readonly last_used_at: Date | null
  readonly key_prefix: string | null
  readonly labels: Labels | null
  readonly previous_hash: string | null
  readonly previous_prefix: string | null
  readonly previous_ends_at: Date | null
  readonly previous_last_used_at: Date | null
}

export type RevokedRecordRow = KeyRow & { readonly transaction: string }

/** The columns of a `FoundRow`, except the two that a look-up by hash computes. */
export function foundColumns(sql: Sql): Fragment {
  return sql`id, username, key_hash, status, user_groups, subscription, created_at, expires_at, revoked_at,
    caps`
}

export function toFoundKey(row: FoundRow): FoundKey {
  const { id, username: user, subscription } = row
  const caps = parseStoredCaps(row.caps)
  const capped = row.caps === null ? undefined : compileCaps({ id, user, subscription, caps })
  return { ...toKnown(row), ...(capped && { capped }) }
}

function toKnown(row: FoundRow) {
  return {
    id: row.id,
    hash: row.key_hash,
    user: row.username,
    groups: row.user_groups,
    subscription: row.subscription,
    status: row.status,
    createdAt: row.created_at.getTime(),
    expiresAt: row.expires_at?.getTime() ?? null,
    ...(row.revoked_at && { revokedAt: row.revoked_at.getTime() }),
    ...(row.is_previous && { isPrevious: true as const }),
  }
}

/** Labels or caps as JSON; null for none. */
export function toStoredJson(fields: Labels | KeyCaps | undefined): string | null {
  return fields !== undefined && Object.keys(fields).length > 0 ? JSON.stringify(fields) : null
}

export function toApiKeyRecord(row: KeyRow): ApiKeyRecord {
  return {
    ...toKnown(row),
    caps: parseStoredCaps(row.caps),
    prefix: row.key_prefix,
    name: row.name,
    description: row.description ?? '',
    labels: row.labels ?? {},
    ephemeral: row.ephemeral,
    lastUsedAt: row.last_used_at?.getTime() ?? null,
    ...(row.previous_hash !== null && { previous: toPrevious(row.previous_hash, row) }),
  }
}

function toPrevious(hash: string, row: KeyRow): PreviousSecret {
  return {
    hash,
    prefix: row.previous_prefix,
    endsAt: row.previous_ends_at?.getTime() ?? 0,
    lastUsedAt: row.previous_last_used_at?.getTime() ?? null,
  }
}

/** The record, with its own revocation and its replaced secret's. */
export function toRevokedRecord(row: RevokedRecordRow): ApiKeyRecord & RevokedKey {
  const { transaction, previous_hash: previousHash } = row
  return { ...toApiKeyRecord(row), ...(previousHash !== null && { previousHash }), transaction }
}
