/** API keys in Postgres: one tagged query a method. */

import type postgres from 'postgres'
import type { ApiKeyRecord, ApiKeyStatus } from '../core/api-key.ts'
import type { ApiKeyStore } from './api-keys.ts'
import { within } from './postgres.ts'

interface Row {
  readonly id: string
  readonly username: string
  readonly name: string
  readonly description: string | null
  readonly key_hash: string
  readonly status: ApiKeyStatus
  readonly user_groups: readonly string[]
  readonly subscription: string
  readonly ephemeral: boolean
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly last_used_at: Date | null
}

/** An ApiKeyStore over a pool whose database has been migrated. */
export function createPostgresApiKeys(sql: postgres.Sql): ApiKeyStore {
  return {
    async insert(record) {
      await within(sql`
        insert into api_keys (id, username, name, description, key_hash, status, user_groups,
          subscription, ephemeral, created_at, expires_at)
        values (${record.id}, ${record.user}, ${record.name}, ${record.description || null},
          ${record.hash}, ${record.status}, ${sql.array([...record.groups])},
          ${record.subscription}, ${record.ephemeral}, ${new Date(record.createdAt)},
          ${record.expiresAt === null ? null : new Date(record.expiresAt)})`)
    },
    async findByHash(hash) {
      return first(await within(sql<Row[]>`select * from api_keys where key_hash = ${hash}`))
    },
    async findById(id) {
      return first(await within(sql<Row[]>`select * from api_keys where id = ${id}`))
    },
    async revoke(id, owner, now) {
      const instant = new Date(now)
      return first(
        await within(sql<Row[]>`
          update api_keys set status = 'revoked'
          where id = ${id} and status = 'active'
            and (expires_at is null or expires_at > ${instant})
            ${owner === undefined ? sql`` : sql`and username = ${owner}`}
          returning *`),
      )
    },
  }
}

function first(rows: readonly Row[]): ApiKeyRecord | undefined {
  const row = rows[0]
  if (row === undefined) return undefined
  return {
    id: row.id,
    hash: row.key_hash,
    user: row.username,
    groups: row.user_groups,
    name: row.name,
    description: row.description ?? '',
    subscription: row.subscription,
    status: row.status,
    ephemeral: row.ephemeral,
    createdAt: row.created_at.getTime(),
    expiresAt: row.expires_at?.getTime() ?? null,
    lastUsedAt: row.last_used_at?.getTime() ?? null,
  }
}
