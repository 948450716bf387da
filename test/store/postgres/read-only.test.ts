import { test } from 'tap'
import {
  inTransaction,
  openPool,
  type Pool,
  withDeadline,
} from '../../../src/store/postgres/postgres.ts'
import type { Sql } from '../../../src/store/postgres/sql.ts'
import { createDatabase } from '../../support/database.ts'

test('connections to a server that was read-only are replaced', async (t) => {
  const url = await createDatabase(t)
  const name = new URL(url).pathname.slice(1)
  const owner = openPool({ url, connections: 1 })
  t.teardown(() => owner.end())
  await owner`create table written (n int)`
  const setReadOnly = (on: boolean) =>
    owner.unsafe(
      `set default_transaction_read_only = off; alter database "${name}" set default_transaction_read_only = ${on}`,
    )

  const write = (sql: Sql) => withDeadline(sql`insert into written values (1)`)
  const ways: Readonly<Record<string, (pool: Pool) => Promise<unknown>>> = {
    alone: write,
    'in a transaction': (pool) => inTransaction(pool, write),
  }
  for (const [way, tryWrite] of Object.entries(ways)) {
    await setReadOnly(true)
    const pool = openPool({ url, connections: 3 })
    t.teardown(() => pool.end())
    const isReadOnly = async () => {
      const [row] = await pool<{ on: string }[]>`
        select current_setting('default_transaction_read_only') as on, pg_sleep(0.1)`
      return row?.on
    }
    await Promise.all([isReadOnly(), isReadOnly(), isReadOnly()])
    await t.rejects(tryWrite(pool), { code: 'store_unavailable' }, way)

    await setReadOnly(false)
    await tryWrite(pool)
    t.strictSame(
      await Promise.all([isReadOnly(), isReadOnly(), isReadOnly()]),
      ['off', 'off', 'off'],
      `${way}: of all connections, because reads of a replica may be old`,
    )
  }
})
