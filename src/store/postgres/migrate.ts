/** Brings the database to our schema: migrations/NNNN-name.sql, in order, each once. */

import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type { Pool } from './postgres.ts'

const defaultFolder = new URL('./migrations/', import.meta.url)

/** Any number, as long as every replica uses the same. */
const lockNumber = 7_005_101_901

/**
 * Applies what has not been applied yet, in one transaction under an advisory lock: of processes
 * that start together one migrates and the others find it done. Answers the names applied. Rejects
 * with an Error fit for a person when one that was applied is not what it was then: the schema is
 * not what this version takes it for.
 */
export async function migrate(sql: Pool, folder = defaultFolder): Promise<readonly string[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return await sql.begin(async (transaction) => {
    await transaction`set local statement_timeout = 0`
    await transaction`select pg_advisory_xact_lock(${lockNumber})`
    await transaction`set local client_min_messages = warning`
    await transaction`create table if not exists tollgate_migrations (
      name text primary key,
      applied_at timestamptz not null default now()
    )`
    await transaction`alter table tollgate_migrations add column if not exists checksum text`
    const rows = await transaction<{ name: string; checksum: string | null }[]>`
      select name, checksum from tollgate_migrations`
    const applied = new Map(rows.map(({ name, checksum }) => [name, checksum]))
    const fresh: string[] = []
    for (const name of names) {
      const text = await readFile(new URL(name, folder), 'utf8')
      const checksum = checksumOf(text)
      const before = applied.get(name)
      if (before === undefined) {
        await transaction.unsafe(text)
        fresh.push(name)
      } else if (before !== null && before !== checksum) {
        throw new Error(
          `The database was brought to its schema by another form of ${name} than this version has. ` +
            'Restore a backup from before, or use the version that it was migrated with.',
        )
      }
      // One from before there were checksums is taken to be what it is now.
      await transaction`
        insert into tollgate_migrations (name, checksum) values (${name}, ${checksum})
        on conflict (name) do update set checksum = excluded.checksum
          where tollgate_migrations.checksum is null`
    }
    return fresh
  })
}

/** Of the statements: comments and indentation may change. */
function checksumOf(text: string): string {
  const statements = text.replace(/--.*$/gm, '').replace(/\s+/g, ' ').trim()
  return createHash('sha256').update(statements).digest('hex')
}
