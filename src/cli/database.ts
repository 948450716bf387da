/** The database of a command: connections that end with its work. */

import { join } from 'node:path'
import { isSet, withRecordedAddresses } from '../../dev/own-addresses.ts'
import { findEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { type Config, loadConfig } from '../settings/config.ts'
import { openPool, type Pool, type PoolOptions, tryConnect } from '../store/postgres/postgres.ts'
import { Unreachable } from './command.ts'

/**
 * Uses the database of DATABASE_URL, or the database that `tollgate up` has created in DATA_DIR, with the settings that
 * it has recorded there; throws an error that names the settings if there is none.
 */
export async function withDatabase<Result>(
  env: NodeJS.ProcessEnv,
  command: string,
  work: (sql: Pool, config: Config) => Promise<Result>,
): Promise<Result> {
  const config = loadConfig(isSet(env, 'DATABASE_URL') ? env : withRecordedAddresses(env))
  const { dataDir, databaseUrl } = config
  const url = databaseUrl ?? embeddedDatabaseUrl(dataDir)
  if (url === undefined) {
    const place = `npm start has made no database in ${dataDir} (set DATA_DIR to its folder)`
    throw new Error(`Set DATABASE_URL: ${place}.`)
  }
  const options = { url, connections: 1, applicationName: `tollgate ${command}` }
  return await withPool(options, async (sql) => {
    if (databaseUrl === undefined) await requireRunning(sql, dataDir)
    else await requireResponse(sql, 'DATABASE_URL')
    return await work(sql, config)
  })
}

/** The URL of the database that `tollgate up` has created there, if any. */
export function embeddedDatabaseUrl(dataDir: string): string | undefined {
  return findEmbeddedPostgres(join(dataDir, 'postgres'))
}

/** Whether a database responds at this URL. */
export async function isRunning(url: string): Promise<boolean> {
  return await withPool({ url, connections: 1 }, async (sql) => await sql`select 1`).then(
    () => true,
    () => false,
  )
}

/** Rejects with advice if this database of `tollgate up` does not respond. */
export async function requireRunning(sql: Pool, dataDir: string): Promise<void> {
  await sql`select 1`.catch(() => {
    throw new Unreachable(`The database in ${dataDir} does not run: run npm start.`)
  })
}

/** Rejects with the problem, naming the setting or flag for the database, unless it responds. */
export async function requireResponse(sql: Pool, setting: string): Promise<void> {
  const problem = await tryConnect(sql, responseWithinMs)
  if (problem === undefined) return
  const message = `${setting}: the database cannot be used (${problem.message}).`
  throw problem.isFinal ? new Error(message) : new Unreachable(message)
}

/** Longer than the deadlines of the connection itself, in milliseconds. */
const responseWithinMs = 10_000

/** Does the work with a pool, which is closed at the end. */
export async function withPool<Result>(
  options: PoolOptions,
  work: (sql: Pool) => Promise<Result>,
): Promise<Result> {
  const sql = openPool(options)
  try {
    return await work(sql)
  } finally {
    await sql.end()
  }
}
