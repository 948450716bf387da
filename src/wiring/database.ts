/** The configured database, or the embedded one. */

import { join } from 'node:path'
import { createPostgresPart } from '../../dev/postgres/postgres-part.ts'
import { createSupervisor } from '../../dev/supervisor.ts'
import { timedStop } from '../runtime/stops.ts'
import { openPool, type Pool } from '../store/postgres/postgres.ts'
import { waitForDatabase } from '../store/postgres/until-available.ts'
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
    const embedded = createPostgresPart(join(config.dataDir, 'postgres'), (line) =>
      log.info({ code: 'embedded_postgres' }, line),
    )
    const supervisor = createSupervisor((line) =>
      log.warn({ code: 'embedded_postgres_ended' }, line),
    )
    await supervisor.start(embedded.part)
    stops.push(timedStop('the embedded Postgres', supervisor.stop))
    url = () => embedded.url() ?? ''
  }
  const pool = openPool({ url, connections: config.databaseConnections })
  stops.push(timedStop('the database connections', (graceMs) => pool.end(graceMs)))
  await waitForDatabase(pool, context)
  return { pool, url }
}
