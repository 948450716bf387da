import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../../src/store/postgres/postgres.ts'
import { atProcessEnd } from './process-end.ts'
import { makeDatabaseFolder } from './temporary-folder.ts'
import { startTestPostgres } from './test-postgres.ts'
import './time-limit.ts'

let ownServer: Promise<string> | undefined

/**
 * Creates an empty database and returns its URL; it is dropped when `t` ends. The server is that of
 * TEST_DATABASE_URL, which `npm test` starts for all files; a file that runs alone starts one of
 * its own.
 */
export async function createDatabase(t: Test): Promise<string> {
  return createFrom(t, await findServer(t), 'template1')
}

/** Creates a database with the current schema: a copy of one that was migrated once for all files. */
export async function createMigratedDatabase(t: Test): Promise<string> {
  const server = await findServer(t)
  migrated ??= ensureMigrated(server)
  return createFrom(t, server, await migrated)
}

async function createFrom(t: Test, server: string, template: string): Promise<string> {
  const name = `test_${randomBytes(6).toString('hex')}`
  // The default strategy writes every page to the log and takes several times as long.
  await execute(
    server,
    (sql) =>
      sql`create database ${sql.identifier(name)} template ${sql.identifier(template)} strategy file_copy`,
  )
  t.teardown(() =>
    execute(server, (sql) => sql`drop database ${sql.identifier(name)} with (force)`),
  )
  return databaseOf(server, name)
}

let migrated: Promise<string> | undefined

/** Any number that all test processes share. */
const lockNumber = 7_005_101_902

/** The name of the database that is copied. Of processes that start together, one creates it. */
async function ensureMigrated(server: string): Promise<string> {
  const name = `migrated_${schemaMark()}`
  await execute(server, async (sql) => {
    await sql`select pg_advisory_lock(${lockNumber})`
    try {
      const [{ exists } = { exists: false }] = await sql<{ exists: boolean }[]>`
        select exists (select from pg_database where datname = ${name}) as exists`
      if (!exists) await makeMigrated(server, sql, name)
    } finally {
      await sql`select pg_advisory_unlock(${lockNumber})`
    }
  })
  return name
}

async function makeMigrated(server: string, sql: Pool, name: string): Promise<void> {
  const draft = `${name}_draft`
  await sql`drop database if exists ${sql.identifier(draft)} with (force)`
  await sql`create database ${sql.identifier(draft)} strategy file_copy`
  const inside = openPool({ url: databaseOf(server, draft), connections: 1 })
  try {
    await migrate(inside)
  } finally {
    await inside.end()
  }
  await sql`alter database ${sql.identifier(draft)} rename to ${sql.identifier(name)}`
}

/** A server may have outlived the migrations that it knows. */
function schemaMark(): string {
  const folder = new URL('../../src/store/postgres/migrations/', import.meta.url)
  const hash = createHash('sha256')
  for (const file of readdirSync(folder).sort()) hash.update(readFileSync(new URL(file, folder)))
  return hash.digest('hex').slice(0, 12)
}

async function findServer(t: Test): Promise<string> {
  return process.env.TEST_DATABASE_URL ?? (await startOwnServer(t))
}

function databaseOf(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/** This process's pools, by the server's URL: connecting takes both sides longer than most queries. */
const pools = new Map<string, Pool>()

function poolOf(server: string): Pool {
  const kept = pools.get(server)
  if (kept !== undefined) return kept
  const pool = openPool({ url: server, connections: 1, statementTimeoutMs: 60_000 })
  pools.set(server, pool)
  atProcessEnd(() => pool.end())
  return pool
}

/** Runs one statement. Retries while the server runs but does not accept connections yet. */
async function execute(server: string, query: (sql: Pool) => PromiseLike<unknown>): Promise<void> {
  const giveUpAt = performance.now() + 60_000
  for (;;) {
    try {
      await query(poolOf(server))
      return
    } catch (error) {
      const isLate = String(error).includes('timeout') && performance.now() < giveUpAt
      if (!isLate) throw error
    }
  }
}

function startOwnServer(t: Test): Promise<string> {
  ownServer ??= (async () => {
    let file: Test = t
    while (file.parent !== undefined) file = file.parent as Test
    const { path, remove } = makeDatabaseFolder()
    file.teardown(remove)
    const server = await startTestPostgres(join(path, 'postgres'))
    file.teardown(() => server.stop())
    return server.url
  })()
  return ownServer
}

/** How many rows of a table were read so far. `sql` must have one connection, whose statistics are flushed first. */
export async function countReads(sql: Pool, table: string): Promise<number> {
  await sql`select pg_stat_force_next_flush()`
  const [row] = await sql<{ reads: number }[]>`
    select (seq_tup_read + idx_tup_fetch)::int as reads from pg_stat_user_tables
    where relname = ${table}`
  return row?.reads ?? 0
}
