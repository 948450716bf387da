/** The database of the settings, or the embedded one. */

import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { startEmbeddedPostgres } from '../store/postgres/embedded-postgres.ts'
import { migrate } from '../store/postgres/migrate.ts'
import { openPool, type Pool, ping } from '../store/postgres/postgres.ts'
import type { Context } from './context.ts'

export interface Database {
  readonly pool: Pool
  readonly url: string
}

/** How long a start waits for it, in milliseconds. */
const waitMs = 30_000

/** A database that answers and has been migrated. */
export async function openDatabase({ config, log, stops }: Context): Promise<Database> {
  let url = config.databaseUrl
  if (url === undefined) {
    const embedded = await startEmbeddedPostgres({
      directory: join(config.dataDir, 'postgres'),
      log: (line) => log.info(line),
    })
    stops.push({
      name: 'the embedded Postgres',
      shareMs: 1_300,
      mostMs: 14_000,
      lost: 'nothing that was committed; its next start recovers',
      stop: embedded.stop,
    })
    url = embedded.url
  }
  const pool = openPool({ url, connections: config.databaseConnections })
  stops.push({
    name: 'the database connections',
    shareMs: 400,
    lost: 'statements under way',
    stop: (graceMs) => pool.end(graceMs),
  })
  await waitForDatabase(pool, log)
  return { pool, url }
}

/** Migrates as soon as the database answers: services and their database often start together. */
async function waitForDatabase(pool: Pool, log: Logger): Promise<void> {
  const giveUpAt = Date.now() + waitMs
  while (!(await ping(pool))) {
    if (Date.now() > giveUpAt) throw new Error(`DATABASE_URL: no answer within ${waitMs / 1_000} s`)
    log.warn('waiting for the database')
    await delay(1_000)
  }
  const applied = await migrate(pool)
  if (applied.length > 0) log.info({ migrations: applied }, 'database migrated')
}
