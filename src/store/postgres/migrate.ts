/** Brings the database to our schema: migrations/NNNN-name.sql, in order, each once. */

import { readdir, readFile } from 'node:fs/promises'
import type { Pool } from './postgres.ts'

const folder = new URL('./migrations/', import.meta.url)

/** Any number, as long as every replica uses the same. */
const lockNumber = 7_005_101_901

/**
 * Applies what has not been applied yet, in one transaction under an advisory lock: of processes
 * that start together one migrates and the others find it done. Answers the names applied.
 */
export async function migrate(sql: Pool): Promise<readonly string[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return await sql.begin(async (transaction) => {
    await transaction`set local lock_timeout = 0`
    await transaction`set local statement_timeout = 0`
    await transaction`select pg_advisory_xact_lock(${lockNumber})`
    await transaction`set local client_min_messages = warning`
    await transaction`create table if not exists tollgate_migrations (
      name text primary key,
      applied_at timestamptz not null default now()
    )`
    const rows = await transaction<{ name: string }[]>`select name from tollgate_migrations`
    const applied = new Set(rows.map(({ name }) => name))
    const fresh = names.filter((name) => !applied.has(name))
    for (const name of fresh) {
      await transaction.unsafe(await readFile(new URL(name, folder), 'utf8'))
      await transaction`insert into tollgate_migrations (name) values (${name})`
    }
    return fresh
  })
}
