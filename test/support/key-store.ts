import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { ApiKeyRecord } from '../../src/core/api-key.ts'
import type { ApiKeySearch, FoundKey, KnownKey } from '../../src/store/api-keys.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../../src/store/postgres/postgres.ts'
import { createDatabase } from './database.ts'

/** The instant at which stores are tested, in milliseconds since the epoch. */
export const now = Date.UTC(2026, 2, 1, 12)

/** A pool on this database, an empty one if none is given; ended with `t`. */
export async function createPool(t: Test, url?: string, connections = 10): Promise<Pool> {
  const sql = openPool({ url: url ?? (await createDatabase(t)), connections })
  t.teardown(() => sql.end())
  return sql
}

/** A pool on a fresh database with our schema. */
export async function createMigrated(t: Test): Promise<Pool> {
  const sql = await createPool(t)
  await migrate(sql)
  return sql
}

/** A record of alice's, active for another hour, with these fields instead. */
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
    subscription: 'premium',
    status: 'active',
    ephemeral: false,
    createdAt: now,
    expiresAt: now + 3_600_000,
    lastUsedAt: null,
    ...fields,
  }
}

/** alice's first page in the default order, with these fields instead. */
export function createSearch(fields: Partial<ApiKeySearch> = {}): ApiKeySearch {
  return {
    owner: 'alice',
    statuses: new Set(),
    includeEphemeral: false,
    prefix: undefined,
    sortBy: 'created_at',
    descending: true,
    limit: 51,
    offset: 0,
    now,
    ...fields,
  }
}

/** What the request path is told of a record. */
export function knownOf(record: ApiKeyRecord | FoundKey): KnownKey {
  const { id, user, groups, subscription, status, expiresAt, revokedAt } = record
  const known = { id, user, groups, subscription, status, expiresAt }
  return revokedAt === undefined ? known : { ...known, revokedAt }
}
