import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { ApiKeyRecord } from '../../src/keys/rules/api-key.ts'
import type { ApiKeySearch, FoundKey, KnownKey } from '../../src/keys/store.ts'
import { openPool, type Pool } from '../../src/store/postgres/postgres.ts'
import { createDatabase, createMigratedDatabase } from './database.ts'

/** The current time in tests of stores, in milliseconds since the epoch. */
export const now = Date.UTC(2026, 2, 1, 12)

/** A pool for this database, by default a new empty one; ended with `t`. */
export async function createPool(t: Test, url?: string, connections = 10): Promise<Pool> {
  const sql = openPool({ url: url ?? (await createDatabase(t)), connections })
  t.teardown(() => sql.end())
  return sql
}

/** A pool for a new database with our schema. */
export async function createMigrated(t: Test): Promise<Pool> {
  return await createPool(t, await createMigratedDatabase(t))
}

/** A record of alice, active for another hour, with these fields changed. */
export function createRecord(fields: Partial<ApiKeyRecord> = {}): ApiKeyRecord {
  const id = randomUUID()
  return {
    id,
    hash: `hash of ${id}`,
    prefix: null,
    user: 'alice',
    groups: ['team-a'],
    name: 'a key',
    description: '',
    labels: {},
    caps: {},
    subscription: 'premium',
    status: 'active',
    ephemeral: false,
    createdAt: now,
    expiresAt: now + 3_600_000,
    lastUsedAt: null,
    ...fields,
  }
}

/** The first page of alice's keys in the default order, with these fields changed. */
export function createSearch(fields: Partial<ApiKeySearch> = {}): ApiKeySearch {
  return {
    owner: 'alice',
    statuses: new Set(),
    includeEphemeral: false,
    subscription: undefined,
    prefix: undefined,
    labels: {},
    sortBy: 'created_at',
    descending: true,
    limit: 51,
    offset: 0,
    now,
    ...fields,
  }
}

/** The part of a record that the request path uses. */
export function knownOf(record: ApiKeyRecord | FoundKey): KnownKey {
  const { id, user, groups, subscription, status, createdAt, expiresAt, revokedAt } = record
  const known = { id, user, groups, subscription, status, createdAt, expiresAt }
  return revokedAt === undefined ? known : { ...known, revokedAt }
}
