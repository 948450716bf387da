/** What `tollgate demo` is for: the gateway that `tollgate up` runs, and the database that it has made. */

import { join } from 'node:path'
import { isLoopback } from '../core/formats/trustworthy.ts'
import { withRecordedAddresses } from '../local/own-addresses.ts'
import { findEmbeddedPostgres } from '../local/postgres/embedded-postgres.ts'
import { loadConfig } from '../settings/config.ts'
import type { Pool } from '../store/postgres/postgres.ts'
import { checkUrl } from './api-server.ts'
import { Unreachable } from './command.ts'
import { withPool } from './database.ts'

/** The sample gateway, and its database. */
export interface DemoPlace {
  /** Its address. */
  readonly url: string
  readonly sql: Pool
}

/**
 * Works with the gateway that `tollgate up` runs on DATA_DIR and with its embedded Postgres, which nobody reaches without its
 * random password. Rejects with a readable error, before anything is done, if there is none, it does not run, or the settings
 * name another database or another gateway.
 */
export async function withDemo<Result>(
  env: NodeJS.ProcessEnv,
  work: (place: DemoPlace) => Promise<Result>,
): Promise<Result> {
  const written = env.TOLLGATE_URL?.trim()
  const named = written ? checkUrl(written, true) : undefined
  if (named !== undefined && !isLoopback(new URL(named).hostname)) {
    throw new Error(`${named} is not on this machine; a demo is for the gateway of tollgate up.`)
  }
  const { dataDir, databaseUrl } = loadConfig(env)
  const what = 'A demo is for the gateway and the database of npm start'
  if (databaseUrl !== undefined)
    throw new Error(`${what}, and DATABASE_URL names another database.`)
  const recorded = withRecordedAddresses({ DATA_DIR: dataDir }).GATEWAY_ADDRESS
  const database = findEmbeddedPostgres(join(dataDir, 'postgres'))
  if (database === undefined || recorded === undefined) {
    throw new Error(`${what}, which has made none in ${dataDir}: set DATA_DIR as it has it.`)
  }
  const url = named ?? `http://${recorded}`
  if (!recorded.endsWith(`:${new URL(url).port || 80}`)) {
    throw new Error(`${what}; that of ${dataDir} is at http://${recorded}, and not at ${url}.`)
  }
  const options = { url: database, connections: 1, applicationName: 'tollgate demo' }
  return await withPool(options, async (sql) => {
    await sql`select 1`.catch(() => {
      throw new Unreachable(`The database in ${dataDir} does not run: run npm start.`)
    })
    return await work({ url, sql })
  })
}
