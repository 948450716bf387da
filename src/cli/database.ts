/** The database of a command: connections that end with its work. */

import { loadConfig } from '../settings/config.ts'
import { openPool, type Pool, type PoolOptions } from '../store/postgres/postgres.ts'

/** Works with the database of DATABASE_URL; throws an error that names the setting if there is none. */
export async function withDatabase<Result>(
  env: NodeJS.ProcessEnv,
  command: string,
  work: (sql: Pool) => Promise<Result>,
): Promise<Result> {
  const { databaseUrl: url } = loadConfig(env)
  if (url === undefined) throw new Error('Name the database by DATABASE_URL.')
  return await withPool({ url, connections: 1, applicationName: `tollgate ${command}` }, work)
}

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
