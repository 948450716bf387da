import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Test } from 'tap'
import { openPool, type Pool } from '../../src/store/postgres/postgres.ts'
import { makeDatabaseFolder } from './temporary-folder.ts'
import { startTestPostgres } from './test-postgres.ts'
import './time-limit.ts'

let ownServer: Promise<string> | undefined

/**
 * Creates an empty database and returns its URL; it is dropped when `t` ends. The server is that of
 * TEST_DATABASE_URL, which `npm test` starts for all files; a file that runs alone starts one of
 * its own.
 */
export async function createDatabase(t: Test): Promise<string> {
  const server = process.env.TEST_DATABASE_URL ?? (await startOwnServer(t))
  const name = `test_${randomBytes(6).toString('hex')}`
  // The default strategy writes every page to the log and takes several times as long.
  await execute(server, (sql) => sql`create database ${sql.identifier(name)} strategy file_copy`)
  t.teardown(() =>
    execute(server, (sql) => sql`drop database ${sql.identifier(name)} with (force)`),
  )
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/** Runs one statement. Retries while the server runs but does not accept connections yet. */
async function execute(url: string, query: (sql: Pool) => PromiseLike<unknown>): Promise<void> {
  const giveUpAt = performance.now() + 60_000
  for (;;) {
    const sql = openPool({ url, connections: 1, statementTimeoutMs: 60_000 })
    try {
      await query(sql)
      return
    } catch (error) {
      const isLate = String(error).includes('timeout') && performance.now() < giveUpAt
      if (!isLate) throw error
    } finally {
      await sql.end()
    }
  }
}

function startOwnServer(t: Test): Promise<string> {
  ownServer ??= (async () => {
    let file: Test = t
    while (file.parent !== undefined) file = file.parent as Test
    const { path, remove } = makeDatabaseFolder()
    file.teardown(remove)
    const server = await startTestPostgres(join(path, 'postgres'))
    file.teardown(() => server.stop())
    return server.url
  })()
  return ownServer
}
