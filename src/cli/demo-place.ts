/** The target of `tollgate demo`: the gateway that `tollgate up` runs, and the database that it has created. */

import { withRecordedAddresses } from '../../dev/own-addresses.ts'
import { isLoopback } from '../formats/trustworthy.ts'
import { loadConfig } from '../settings/config.ts'
import type { Pool } from '../store/postgres/postgres.ts'
import { defaultUrl, urlOf } from './api-target.ts'
import { embeddedDatabaseUrl, requireRunning, withPool } from './database.ts'

/** The sample gateway, and its database if `tollgate up` has created it. */
export interface DemoPlace {
  /** Its address. */
  readonly url: string
  readonly sql?: Pool
  /** Why there is no such database: a clause. */
  readonly reason?: string
}

/**
 * Uses the gateway at TOLLGATE_URL, else the gateway that `tollgate up` runs on DATA_DIR, and the embedded Postgres
 * there, which has a random password: no other database, and only if it belongs to that gateway. If the gateway is on
 * another machine or the database does not run, rejects with a readable error before it changes anything.
 */
export async function withDemo<Result>(
  env: NodeJS.ProcessEnv,
  work: (place: DemoPlace) => Promise<Result>,
): Promise<Result> {
  const named = env.TOLLGATE_URL?.trim() ? urlOf(env) : undefined
  if (named !== undefined && !isLoopback(new URL(named).hostname)) {
    throw new Error(`${named} is not on this machine; a demo is for the gateway of tollgate up.`)
  }
  const { dataDir, databaseUrl } = loadConfig(env)
  const recorded = withRecordedAddresses({ DATA_DIR: dataDir }).GATEWAY_ADDRESS
  const url = named ?? (recorded === undefined ? defaultUrl : `http://${recorded}`)
  const database = embeddedDatabaseUrl(dataDir)
  if (databaseUrl !== undefined) {
    return await work({ url, reason: 'DATABASE_URL names another database than npm start uses' })
  }
  if (database === undefined || recorded === undefined) {
    const reason = `npm start has made no database in ${dataDir} (set DATA_DIR to its folder)`
    return await work({ url, reason })
  }
  if (!recorded.endsWith(`:${new URL(url).port || 80}`)) {
    const reason = `the database in ${dataDir} belongs to http://${recorded} (set DATA_DIR to the folder of npm start at ${url})`
    return await work({ url, reason })
  }
  const options = { url: database, connections: 1, applicationName: 'tollgate demo' }
  return await withPool(options, async (sql) => {
    await requireRunning(sql, dataDir)
    return await work({ url, sql })
  })
}
