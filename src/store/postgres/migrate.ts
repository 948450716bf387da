/** Migrates the database to our schema: migrations/NNNN-name.sql, in order, each once. */

import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { advisoryLocks, lockDeadlineMs } from './advisory-locks.ts'
import type { Pool } from './postgres.ts'
import type { Sql } from './sql.ts'

const defaultFolder = new URL('./migrations/', import.meta.url)

/** A migration of this version. */
interface Migration {
  readonly name: string
  readonly text: string
  readonly checksum: string
  /**
   * The oldest version, as a migration number, that continues to work after this migration: `0004`
   * from the line `-- works-with: 0004`, otherwise its own number.
   */
  readonly worksWith: string
}

interface Applied {
  readonly name: string
  readonly checksum: string | null
  readonly worksWith: string | null
}

/**
 * Applies pending migrations in one transaction under an advisory lock, so that only one of several processes that
 * start together migrates. Returns the names that were applied. Rejects with a readable Error if the database refuses,
 * or if the schema does not match: an applied migration has changed since, or a newer version's schema does not support
 * this one. While other transactions hold a lock that it needs, it tries again for `waitMs`.
 */
export async function migrate(sql: Pool, folder = defaultFolder, waitMs = 30_000) {
  const migrations = await readMigrations(folder)
  for (const giveUpAt = performance.now() + waitMs; ; await delay(lockRestMs)) {
    try {
      return await applyPending(sql, migrations)
    } catch (error) {
      if (!(error instanceof pg.DatabaseError)) throw error
      if (error.code === '55P03' && performance.now() < giveUpAt) continue
      const mend = mends.find(([form]) => form.test(`${error.code} ${error.message}`))?.[1] ?? ''
      throw new Error(`The schema cannot be migrated: ${error.message}${mend}.`)
    }
  }
}

/** Meanwhile the requests that have waited behind it go on. */
const lockRestMs = 1_000

/** By the code and the message of the database's error. */
const mends: readonly (readonly [RegExp, string])[] = [
  [/^42501/, ', so use the role that owns the tables and may create others in their schema'],
  [/^25006/, ', so name the primary, not a replica, and a role that may write'],
  [/^55P03/, ', so end the transactions that use its tables, such as a backup'],
  [/^3F000/, ', so create the schema that the search_path of this role names'],
  [/statement pooling/, ', so set pool_mode to session or transaction'],
]

function applyPending(sql: Pool, migrations: readonly Migration[]): Promise<readonly string[]> {
  return sql.begin(async (transaction) => {
    await transaction`set local statement_timeout = 0`
    await transaction`select pg_advisory_xact_lock(${advisoryLocks.migrations})`
    await transaction`set local client_min_messages = warning`
    // Requests wait behind a statement that waits for a lock of a table.
    await transaction`select set_config('lock_timeout', ${`${lockDeadlineMs}ms`}, true)`
    await transaction`create table if not exists tollgate_migrations (
      name text primary key, applied_at timestamptz not null default now(), checksum text, works_with text)`
    const { before, isOld } = await readApplied(transaction)
    // A change of a table waits for all that read it, such as a backup.
    if (isOld)
      await transaction`alter table tollgate_migrations
        add column if not exists checksum text, add column if not exists works_with text`
    const { pending } = compare(migrations, before)
    for (const { text } of pending) await transaction.unsafe(text)
    // A migration from before checksums is assumed to be unchanged.
    for (const { name, checksum, worksWith } of migrations) {
      await transaction`
        insert into tollgate_migrations (name, checksum, works_with)
        values (${name}, ${checksum}, ${worksWith})
        on conflict (name) do update set
          checksum = coalesce(tollgate_migrations.checksum, excluded.checksum),
          works_with = excluded.works_with
        where tollgate_migrations.checksum is null
          or tollgate_migrations.works_with is distinct from excluded.works_with`
    }
    return pending.map(({ name }) => name)
  })
}

/**
 * The plan of `migrate`, without executing it; rejects in the same cases. If `sql` is undefined, the database does not
 * exist yet.
 */
export async function planMigrations(sql: Sql | undefined, folder = defaultFolder) {
  const before = sql === undefined ? [] : (await readApplied(sql)).before
  const { pending, newer } = compare(await readMigrations(folder), before)
  return { applied: before.map(({ name }) => name), pending, newer }
}

/** In another encoding a single name with a character that it lacks would stop the ledger of all usage. */
async function checkEncoding(sql: Sql): Promise<void> {
  const [{ encoding } = { encoding: '' }] = await sql<{ encoding: string }[]>`
    select current_setting('server_encoding') as encoding`
  // SQL_ASCII stores any bytes.
  if (encoding === 'UTF8' || encoding === 'SQL_ASCII') return
  throw new Error(
    `The database has the encoding ${encoding}, which lacks characters that names may have. ` +
      'Create it with the encoding UTF8, and restore a dump of this one there.',
  )
}

/** Also from a table that is older than two of its columns, or does not exist. */
async function readApplied(sql: Sql) {
  await checkEncoding(sql)
  const [{ columns } = { columns: 0 }] = await sql<{ columns: number }[]>`
    select count(*)::int as columns from information_schema.columns
    where table_name = 'tollgate_migrations' and table_schema = any(current_schemas(false))
      and column_name in ('name', 'checksum', 'works_with')`
  if (columns === 0) return { before: [], isOld: false }
  const before = await sql<Applied[]>`
    select name, to_jsonb(m) ->> 'checksum' as checksum, to_jsonb(m) ->> 'works_with' as "worksWith"
    from tollgate_migrations m order by name`
  return { before, isOld: columns < 3 }
}

async function readMigrations(folder: URL): Promise<readonly Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return await Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, folder), 'utf8')
      const [, worksWith = numberOf(name)] = /^-- works-with: (\d{4})$/m.exec(text) ?? []
      return { name, text, checksum: checksumOf(text), worksWith }
    }),
  )
}

/** Throws if this version cannot continue. */
function compare(migrations: readonly Migration[], before: readonly Applied[]) {
  const applied = new Map(before.map((each) => [each.name, each]))
  for (const { name, checksum } of migrations) {
    const known = applied.get(name)?.checksum ?? checksum
    if (known !== checksum) {
      throw new Error(
        `The database was migrated by another form of ${name} than this version has. ` +
          'Restore a backup from before, or use the version that it was migrated with.',
      )
    }
  }
  const own = new Set(migrations.map(({ name }) => name))
  const level = numberOf(migrations.at(-1)?.name ?? '')
  const newer = before.filter(({ name }) => !own.has(name))
  const incompatible = newer.find(({ worksWith }) => worksWith === null || worksWith > level)
  if (incompatible !== undefined) {
    throw new Error(
      `The database has the schema of a newer version (${incompatible.name}), on which this one cannot work. ` +
        'Start the newer version, or restore a backup from before it (docs/upgrade.md).',
    )
  }
  return {
    pending: migrations.filter(({ name }) => !applied.has(name)),
    /** Migrations of a newer version, with which this version still works. */
    newer: newer.map(({ name }) => name),
  }
}

/** `0004` of `0004-revocation-snapshots.sql`. */
function numberOf(name: string): string {
  return /^\d+/.exec(name)?.[0] ?? name
}

/** Checksum of the statements: comments and indentation may change. */
function checksumOf(text: string): string {
  const statements = text.replace(/--.*$/gm, '').replace(/\s+/g, ' ').trim()
  return createHash('sha256').update(statements).digest('hex')
}
