/**
 * What a user's first page of a search costs the database, in each order, among a million keys of
 * ten thousand users: `node bench/search.bench.ts`, with an empty database in DATABASE_URL or an
 * embedded one.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbeddedPostgres } from '../dev/postgres/embedded-postgres.ts'
import { createPostgresApiKeys, searchQuery } from '../src/keys/postgres-api-keys.ts'
import type { ApiKeySearch, ApiKeySort } from '../src/keys/store.ts'
import { migrate } from '../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../src/store/postgres/postgres.ts'
import type { Fragment } from '../src/store/postgres/sql.ts'
import type { Figure } from './measure.ts'

const totalKeys = 1_000_000
const users = 10_000
/** One more user, with enough keys to show what a user's own keys cost. */
const collectorKeys = 50_000
const rounds = 1_000
const sorts: readonly ApiKeySort[] = ['created_at', 'expires_at', 'last_used_at', 'name']

export async function benchSearch(): Promise<readonly Figure[]> {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  const url = process.env.DATABASE_URL
  const embedded = url === undefined ? await startEmbeddedPostgres({ directory, log() {} }) : null
  const sql = openPool({ url: url ?? embedded?.url ?? '', connections: 1 })
  try {
    await migrate(sql)
    await fill(sql)
    return await measure(sql)
  } finally {
    await sql.end()
    await embedded?.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Keys of random users, as after years of use; a tenth is ephemeral. */
async function fill(sql: Pool): Promise<void> {
  const insert = (count: number, username: Fragment) => sql`
    insert into api_keys (id, username, name, key_hash, status, user_groups, subscription,
      ephemeral, created_at, expires_at, last_used_at)
    select gen_random_uuid()::text, ${username}, 'key ' || md5(i::text),
      encode(sha256(gen_random_uuid()::text::bytea), 'hex'),
      case when random() < 0.2 then 'revoked' else 'active' end,
      array['team-' || i % 50], 'premium', random() < 0.1,
      now() - random() * interval '90 days', now() + (random() - 0.3) * interval '90 days',
      case when random() < 0.5 then now() - random() * interval '30 days' end
    from generate_series(1, ${count}::int) i`
  await sql`set statement_timeout = 0`
  await insert(totalKeys, sql`'user-' || floor(random() * ${users}::int)::int`)
  await insert(collectorKeys, sql`'collector'`)
  await sql`vacuum analyze api_keys`
  await sql`checkpoint`
}

async function measure(sql: Pool): Promise<readonly Figure[]> {
  const figures: Figure[] = []
  const user = () => `user-${Math.floor(Math.random() * users)}`
  for (const descending of [true, false]) {
    for (const sortBy of sorts) {
      const times: number[] = []
      for (let i = 0; i < rounds; i += 1) {
        times.push(await databaseMs(sql, firstPage({ owner: user(), sortBy, descending })))
      }
      figures.push({ name: title("a user's", sortBy, descending), value: spread(times) })
    }
  }
  for (const [whose, owner] of [
    [`of ${collectorKeys} own keys`, 'collector'],
    ["an administrator's", undefined],
  ] as const) {
    for (const sortBy of sorts) {
      const times: number[] = []
      for (let i = 0; i < 10; i += 1) {
        times.push(await databaseMs(sql, firstPage({ owner, sortBy, descending: true })))
      }
      figures.push({ name: title(whose, sortBy, true), value: spread(times) })
    }
  }
  const keys = createPostgresApiKeys(sql)
  const begin = performance.now()
  const { length } = await keys.revokeAll({ user: 'collector' }, Date.now())
  const tookMs = performance.now() - begin
  figures.push({ name: `bulk revoke of ${length} keys`, value: `${tookMs.toFixed(0)} ms` })
  return figures
}

function firstPage(search: Pick<ApiKeySearch, 'owner' | 'sortBy' | 'descending'>): ApiKeySearch {
  const status = new Set(['active'] as const)
  return {
    ...search,
    statuses: status,
    includeEphemeral: false,
    subscription: undefined,
    prefix: undefined,
    labels: {},
    limit: 51,
    offset: 0,
    now: Date.now(),
  }
}

/** The server's own time to plan and execute the query. */
async function databaseMs(sql: Pool, search: ApiKeySearch): Promise<number> {
  const [row] = await sql<{ 'QUERY PLAN': { [time: string]: number }[] }[]>`
    explain (analyze, timing off, format json) ${searchQuery(sql, search)}`
  const times = row?.['QUERY PLAN'][0]
  return (times?.['Planning Time'] ?? Number.NaN) + (times?.['Execution Time'] ?? Number.NaN)
}

function title(whose: string, sortBy: ApiKeySort, descending: boolean): string {
  return `search, first page ${whose}, ${sortBy} ${descending ? 'desc' : 'asc'}`
}

function spread(times: readonly number[]): string {
  const sorted = [...times].sort((a, b) => a - b)
  const at = (part: number) => (sorted[Math.floor(part * (sorted.length - 1))] as number).toFixed(2)
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`
}

if (import.meta.main) {
  const figures = await benchSearch()
  const width = Math.max(...figures.map(({ name }) => name.length))
  for (const { name, value } of figures) console.log(`${name.padEnd(width)}  ${value}`)
}
