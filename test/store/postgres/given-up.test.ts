import { test } from 'tap'
import { openPool, withDeadline } from '../../../src/store/postgres/postgres.ts'
import type { Sql } from '../../../src/store/postgres/sql.ts'
import { createDatabase } from '../../support/database.ts'
import { createPool } from '../../support/key-store.ts'
import { poll } from '../../support/poll.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'

/** Other statements that run in the database. */
function running(sql: Sql) {
  return sql<{ query: string }[]>`
    select query from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and state = 'active'`
}

test('a statement that is given up ends on the server', async (t) => {
  const url = await createDatabase(t)
  const [sql, watching] = [await createPool(t, url, 2), await createPool(t, url)]
  const given = Array.from({ length: 6 }, () => withDeadline(sql`select pg_sleep(60)`, 200))
  for (const { status, reason } of (await Promise.allSettled(given)) as PromiseRejectedResult[]) {
    t.equal(status, 'rejected')
    t.match(reason, { code: 'store_slow', cause: { message: 'no answer in time' } })
  }
  await poll(async () => (await running(watching)).length === 0, 'nothing is running')
  // All connections were busy with it, and are free again.
  await Promise.all([1, 2, 3].map(() => withDeadline(sql`select 1`)))
})

test('a statement in a transaction ends too, and the transaction is lost', async (t) => {
  const url = await createDatabase(t)
  const [sql, watching] = [await createPool(t, url, 1), await createPool(t, url)]
  await sql`create table numbers (n int)`
  const work = sql.begin(async (one) => {
    await one`insert into numbers values (1)`
    await withDeadline(one`select pg_sleep(60)`, 100)
  })
  await t.rejects(work, { code: 'store_slow' })
  await poll(async () => (await running(watching)).length === 0, 'nothing is running')
  t.equal((await sql`select from numbers`).length, 0)
})

test('a transaction does not wait for a server that hangs', async (t) => {
  const url = await createDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const sql = await createPool(t, proxy.through(url), 1)
  await sql`create table numbers (n int)`
  proxy.swallow()
  const work = async (one: Sql) => await one`insert into numbers values (1)`
  const before = performance.now()
  await t.rejects(sql.begin(work, '', 200), { message: 'no answer in time' })
  t.ok(performance.now() - before < 5_000)
  proxy.heal()
  await poll(() => withDeadline(sql`select 1`).then(Boolean, () => false), 'the server is back')
  t.equal((await sql`select from numbers`).length, 0)
})

test('a statement that the server ends for its length is reported as slow too', async (t) => {
  const sql = openPool({ url: await createDatabase(t), connections: 1, statementTimeoutMs: 50 })
  t.teardown(() => sql.end())
  await t.rejects(withDeadline(sql`select pg_sleep(30)`, 10_000), {
    code: 'store_slow',
    cause: { code: '57014' },
  })
})

test('a pool recovers from a server that does not respond', async (t) => {
  const url = await createDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const sql = await createPool(t, proxy.through(url), 3)
  await Promise.all([1, 2, 3].map(() => sql`select pg_sleep(0.05)`))
  proxy.swallow()
  // The server answers neither the statement nor the request to cancel it.
  for (let i = 0; i < 3; i += 1) {
    const before = performance.now()
    await t.rejects(withDeadline(sql`select 1`, 100), { code: /^store_/ })
    t.ok(performance.now() - before < 5_000, 'nothing else is waited for')
  }
  const codes = () =>
    Promise.all(
      Array.from({ length: 10 }, () =>
        withDeadline(sql`select 1`, 100).catch(({ code }: { code: string }) => code),
      ),
    )
  await poll(
    async () => (await codes()).includes('store_unavailable'),
    'the server is known to be unavailable',
  )
  proxy.heal()
  await poll(
    () =>
      withDeadline(sql`select 1`)
        .then(() => true)
        .catch(() => false),
    'the server is back',
  )
})

test('closing waits for running statements, but not for long', async (t) => {
  const url = await createDatabase(t)
  const watching = await createPool(t, url)
  const [quick, slow] = [await createPool(t, url), await createPool(t, url)]
  const answer = quick<{ n: number }[]>`select 1 as n from pg_sleep(0.2)`.run()
  const none = t.rejects(slow`select pg_sleep(60)`.run())
  await poll(async () => (await running(watching)).length === 2, 'both are running')
  const ended = Promise.all([quick.end(), slow.end(100)])
  t.strictSame([...(await answer)], [{ n: 1 }])
  await none
  await ended
  await poll(async () => (await running(watching)).length === 0, 'nothing is running')
})

test('dates are read whatever style the database has', async (t) => {
  const url = await createDatabase(t)
  const owner = await createPool(t, url, 1)
  const [{ name } = { name: '' }] = await owner<
    { name: string }[]
  >`select current_database() as name`
  for (const style of ['German', 'SQL, DMY', 'Postgres, MDY']) {
    await owner.unsafe(`alter database ${name} set datestyle = '${style}'`)
    const select = "select timestamptz '2026-12-11 10:00:00.123456+00' as at"
    const [row] = await (await createPool(t, url, 1)).unsafe(select)
    t.strictSame(row, { at: new Date('2026-12-11T10:00:00.123Z') }, style)
    const own = new URL(url)
    own.searchParams.set('options', '-c geqo=off')
    const [other] = await (await createPool(t, own.href, 1)).unsafe(select)
    t.strictSame(other, row, 'with options of its own')
    const late = await createPool(t, url, 1)
    await late.unsafe(`set datestyle = '${style}'`)
    await t.rejects(Promise.resolve(late.unsafe(select)), { message: /DateStyle/ })
  }
})

test('values are returned as they were', async (t) => {
  const sql = await createPool(t)
  const at = new Date('2025-12-31T23:59:59.123Z')
  const [row] = await sql`
    select ${at}::timestamptz as at, ${'2025-12-31T23:59:59.123456+05:30'}::timestamptz as fine,
      ${['a', 'with "quote", comma', '{}', '\\', '', 'NULL']}::text[] as words, ${[]}::text[] as none,
      count(*) as big, count(*)::int as small, 1.5::float8 as float, null as nothing,
      true as yes, ${{ toJSON: () => 'x' }}::text as json, json_build_object('a', 1) as object
    from generate_series(1, 3)`
  t.strictSame(
    { ...row },
    {
      at,
      fine: new Date('2025-12-31T18:29:59.123Z'),
      words: ['a', 'with "quote", comma', '{}', '\\', '', 'NULL'],
      none: [],
      big: '3',
      small: 3,
      float: 1.5,
      nothing: null,
      yes: true,
      json: '"x"',
      object: { a: 1 },
    },
  )
  await t.rejects(sql`select ${undefined}`.run(), TypeError)
})

test('a query inside a query brings its values', async (t) => {
  const sql = await createPool(t)
  const inner = sql`n > ${1} and n < ${4}`
  const name = sql.identifier('a "column"')
  const rows = await sql<{ n: number }[]>`
    select n as ${name} from generate_series(${0}::int, ${9}::int) n where ${inner} or n = ${7}`
  t.strictSame(
    rows.flatMap((row) => Object.entries(row)),
    [2, 3, 7].map((n) => ['a "column"', n]),
  )
  const several = await sql.unsafe('select 1 as n; select 2 as n')
  t.strictSame([...several], [{ n: 2 }])
  const { count } = await sql`create table numbers as select generate_series(1, 3) as n`
  t.equal(count, 3)
  t.equal((await sql`delete from numbers where n > 1`).count, 2)
})
