import { chmodSync, chownSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { startEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { poll } from './poll.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** A Postgres for one test, with this certificate and key; it ends with `t`. */
export async function startTlsPostgres(
  t: Test,
  { cert, key }: { readonly cert: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const directory = join(temporaryFolder(t), 'postgres')
  const server = await startEmbeddedPostgres({ directory, log() {} })
  t.teardown(() => server.stop())
  const sql = openPool({ url: server.url, connections: 1 })
  try {
    const [row] = await sql<{ data_directory: string }[]>`show data_directory`
    const folder = row?.data_directory ?? ''
    const { uid, gid } = statSync(folder)
    for (const [name, text] of Object.entries({ 'server.crt': cert, 'server.key': key })) {
      const path = join(folder, name)
      writeFileSync(path, text)
      chmodSync(path, 0o600)
      chownSync(path, uid, gid)
    }
    await sql`alter system set ssl = on`
    await sql`select pg_reload_conf()`
    await poll(async () => {
      const [setting] = await sql<{ ssl: string }[]>`show ssl`
      return setting?.ssl === 'on'
    }, 'Postgres accepts TLS')
  } finally {
    await sql.end()
  }
  return { url: server.url }
}
