/** The configured database, or the embedded one. */

import { join } from 'node:path'
import { startEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { timedStop } from '../runtime/stops.ts'
import { openPool, type Pool } from '../store/postgres/postgres.ts'
import { waitForDatabase } from '../store/postgres/until-answered.ts'
import type { Context } from './context.ts'

export interface Database {
  readonly pool: Pool
  /** The current URL: a file that contains it may have changed. */
  readonly url: () => string
}

/** A database that responds and has been migrated. */
export async function openDatabase(context: Context): Promise<Database> {
  const { config, log, stops } = context
  let url = config.databaseUrlNow
  if (config.databaseUrl === undefined) {
    const embedded = await startEmbeddedPostgres({
      directory: join(config.dataDir, 'postgres'),
      log: (line) => log.info({ code: 'embedded_postgres' }, line),
    })
    stops.push(timedStop('the embedded Postgres', embedded.stop))
    url = () => embedded.url
  }
  const pool = openPool({ url, connections: config.databaseConnections })
  stops.push(timedStop('the database connections', (graceMs) => pool.end(graceMs)))
  await waitForDatabase(pool, context)
  return { pool, url }
}
