import { test } from 'tap'
import { openPool, within } from '../../../src/store/postgres/postgres.ts'
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

  await setReadOnly(true)
  const pool = openPool({ url, connections: 3 })
  t.teardown(() => pool.end())
  const write = () => within(pool`insert into written values (1)`)
  const isReadOnly = async () => {
    const [row] = await pool<{ on: string }[]>`
      select current_setting('default_transaction_read_only') as on, pg_sleep(0.1)`
    return row?.on
  }
  await Promise.all([isReadOnly(), isReadOnly(), isReadOnly()])
  await t.rejects(write(), { code: 'store_unavailable' })

  await setReadOnly(false)
  await write()
  t.strictSame(
    await Promise.all([isReadOnly(), isReadOnly(), isReadOnly()]),
    ['off', 'off', 'off'],
    'of all connections, because reads of a replica may be old',
  )
})
