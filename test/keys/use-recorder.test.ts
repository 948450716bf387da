import { type Test, test } from 'tap'
import { ServiceError } from '../../src/formats/errors.ts'
import { createPostgresApiKeys } from '../../src/keys/postgres-api-keys.ts'
import { type LastUsedOptions, startUseRecorder } from '../../src/keys/use-recorder.ts'
import { createKeyDatabase, receiveNotifications } from '../support/followers.ts'
import { createRecord, now } from '../support/key-store.ts'
import { poll } from '../support/poll.ts'

const outage = new ServiceError('store_unavailable')
const second = 1_000

/** Uses that are written to an array, without a timer unless `everyMs` is given. */
function createWorld(t: Test, options: Partial<LastUsedOptions> = {}) {
  const writes: Record<string, number>[] = []
  const faults: unknown[] = []
  const world = { failure: undefined as Error | undefined }
  const lastUsed = startUseRecorder({
    async write(uses) {
      if (world.failure !== undefined) throw world.failure
      writes.push(Object.fromEntries(uses))
    },
    onFault: (error) => faults.push(error),
    everyMs: 3_600_000,
    ...options,
  })
  t.teardown(() => lastUsed.stop(0))
  return Object.assign(world, { lastUsed, writes, faults })
}

test('uses are written together, the last one of each key', async (t) => {
  const { lastUsed, writes } = createWorld(t, { everyMs: 10 })
  for (const [id, at] of [
    ['a', 1],
    ['b', 2],
    ['a', 3],
  ] as const)
    lastUsed.note(id, at)
  t.strictSame(writes, [], 'not while a request is answered')
  await poll(() => writes.length > 0, 'the uses are written')
  t.strictSame(writes, [{ a: 3, b: 2 }])
})

test('a key is written at most once in 30 seconds', async (t) => {
  const { lastUsed, writes } = createWorld(t, { everyMs: 5 })
  lastUsed.note('a', now)
  await poll(() => writes.length === 1, 'the first use')
  for (let at = now; at < now + 30 * second; at += 100) lastUsed.note('a', at)
  lastUsed.note('b', now)
  await poll(() => writes.length === 2, 'another key')
  lastUsed.note('a', now + 30 * second)
  await poll(() => writes.length === 3, 'a use half a minute later')
  t.strictSame(writes, [{ a: now }, { b: now }, { a: now + 30 * second }])
})

test('a clock that was ahead for a while suppresses no use', async (t) => {
  const { lastUsed, writes } = createWorld(t, { everyMs: 5 })
  lastUsed.note('a', now + 3_600 * second)
  await poll(() => writes.length === 1, 'a use by the wrong clock')
  lastUsed.note('a', now)
  await poll(() => writes.length === 2, 'a use by the right clock')
  lastUsed.note('a', now + 1)
  lastUsed.note('b', now + 1)
  await poll(() => writes.length === 3, 'another key')
  t.strictSame(writes.slice(1), [{ a: now }, { b: now + 1 }])
})

test('one write is limited, the rest follows', async (t) => {
  const { lastUsed, writes } = createWorld(t, { everyMs: 5, batchSize: 3 })
  for (let i = 0; i < 8; i += 1) lastUsed.note(`k${i}`, now)
  await poll(() => writes.length === 3, 'all are written')
  t.strictSame(
    writes.map((write) => Object.keys(write).join()),
    ['k0,k1,k2', 'k3,k4,k5', 'k6,k7'],
  )
})

test('uses are kept through an outage, up to a limit', async (t) => {
  const world = createWorld(t, { everyMs: 5, most: 3 })
  const { lastUsed, writes, faults } = world
  world.failure = outage
  for (const [id, at] of [
    ['a', 1],
    ['b', 2],
    ['c', 3],
    ['d', 4],
    ['a', 5],
  ] as const) {
    lastUsed.note(id, at)
  }
  await new Promise((done) => setTimeout(done, 30))
  lastUsed.note('b', 6)
  world.failure = undefined
  await poll(() => writes.length > 0, 'the database is back')
  t.strictSame(writes, [{ a: 5, b: 6, c: 3 }])
  t.strictSame(faults, [], 'an outage is reported elsewhere')
})

test('a use that cannot be written is reported and dropped', async (t) => {
  const world = createWorld(t, { everyMs: 5, batchSize: 1 })
  const { lastUsed, writes, faults } = world
  world.failure = new TypeError('odd')
  lastUsed.note('odd', 1)
  await poll(() => faults.length === 1, 'the failure is reported')
  world.failure = undefined
  lastUsed.note('a', 2)
  await poll(() => writes.length === 1, 'the next use is written')
  t.strictSame(writes, [{ a: 2 }])
})

test('a stop writes what is left', async (t) => {
  const world = createWorld(t, { batchSize: 2 })
  for (const id of ['a', 'b', 'c']) world.lastUsed.note(id, 1)
  await world.lastUsed.stop(5_000)
  t.strictSame(world.writes, [{ a: 1, b: 1 }, { c: 1 }])

  const unavailable = createWorld(t)
  unavailable.failure = outage
  unavailable.lastUsed.note('a', 1)
  await unavailable.lastUsed.stop(60_000)
  t.strictSame(unavailable.writes, [], 'a failed write is not repeated')
})

test('recording a use creates no promise', async (t) => {
  const { lastUsed } = createWorld(t)
  t.equal(lastUsed.note('a', 1), undefined)
})

/** Of the records of this file. */
const hashOf = (id: string) => `hash of ${id}`

/** A migrated table, and the last uses in it. */
async function createTable(t: Test) {
  const { url, sql } = await createKeyDatabase(t)
  const keys = createPostgresApiKeys(sql)
  const create = async () => {
    const record = createRecord()
    await keys.insert(record)
    return record.id
  }
  const usedAt = async (id: string) => (await keys.findById(id))?.lastUsedAt
  return { url, sql, keys, create, usedAt }
}

test('a use is recorded in its row', async (t) => {
  const { keys, create, usedAt } = await createTable(t)
  const [id, other] = [await create(), await create()]
  const note = (at: number) =>
    keys.noteUses(
      new Map([
        [hashOf(id), at],
        ['nowhere', at],
      ]),
    )
  for (const [at, noted, title] of [
    [now, now, 'the first'],
    [now + 29_999, now, 'half a minute has not passed'],
    [now + 30_000, now + 30_000, 'now it has'],
    [now, now + 30_000, 'the time never goes back'],
  ] as const) {
    await note(at)
    t.equal(await usedAt(id), noted, title)
  }
  t.equal(await usedAt(other), null)
  await keys.noteUses(new Map())
})

test('a clock that is ahead does not suppress the uses of others', async (t) => {
  const { keys, create, usedAt } = await createTable(t)
  const id = await create()
  await keys.noteUses(new Map([[hashOf(id), Date.now() + 86_400_000]]))
  t.ok(Number(await usedAt(id)) <= Date.now() + 1_000)
})

test('concurrent replicas write a use once', async (t) => {
  const { sql, keys, create, usedAt } = await createTable(t)
  const ids: string[] = []
  for (let i = 0; i < 200; i += 1) ids.push(await create())
  await sql`create table writes (id text)`
  await sql`create function count_write() returns trigger language plpgsql as
    $$ begin insert into writes values (new.id); return new; end $$`
  await sql`create trigger count_write after update on api_keys
    for each row execute function count_write()`
  const shuffles = Array.from({ length: 8 }, (_, i) => [
    ...ids.slice(i * 25),
    ...ids.slice(0, i * 25),
  ])
  await Promise.all(
    shuffles.map((order, i) => keys.noteUses(new Map(order.map((id) => [hashOf(id), now + i])))),
  )
  const [{ total } = { total: 0 }] = await sql<{ total: number }[]>`
    select count(*)::int as total from writes`
  t.equal(total, 200, 'each key once')
  for (const id of ids) t.ok(Number(await usedAt(id)) >= now)
})

test('a locked row is not waited for', async (t) => {
  const { sql, keys, create, usedAt } = await createTable(t)
  const [held, free] = [await create(), await create()]
  const holding = sql`
    with locked as (select id from api_keys where id = ${held} for update)
    select pg_sleep(30) from locked`.catch(() => {})
  const asleep = () => sql<{ pid: number }[]>`
    select pid from pg_stat_activity
    where wait_event = 'PgSleep' and query like '%from locked%' and pid <> pg_backend_pid()
      and datname = current_database()`
  const pid = await poll(async () => (await asleep())[0]?.pid ?? 0, 'the row is locked')
  await keys.noteUses(
    new Map([
      [hashOf(held), now],
      [hashOf(free), now],
    ]),
  )
  t.strictSame([await usedAt(held), await usedAt(free)], [null, now])
  await sql`select pg_terminate_backend(${pid})`
  await holding
})

test('a use changes no index and causes no notification', async (t) => {
  const { url, sql, keys, create } = await createTable(t)
  const ids: string[] = []
  for (let i = 0; i < 50; i += 1) ids.push(await create())
  const told = await receiveNotifications(t, url, ['tollgate_revocations', 'probe'])
  // A page has room for a new version of some of its rows, not of all at once.
  await keys.noteUses(new Map(ids.slice(0, 3).map((id) => [hashOf(id), now])))
  await sql`select pg_notify('probe', '')`
  await poll(() => told.length > 0, 'the later notification')
  t.strictSame(told, ['probe'])
  const counts = () => sql<{ updated: number; hot: number }[]>`
    select n_tup_upd::int as updated, n_tup_hot_upd::int as hot
    from pg_stat_user_tables where relname = 'api_keys'`
  const changes = await poll(async () => {
    await sql`select pg_stat_force_next_flush()`
    return (await counts()).filter(({ updated }) => updated > 0)[0] ?? null
  }, 'the statistics')
  t.strictSame(changes, { updated: 3, hot: 3 }, 'each update stays within its page')
})
