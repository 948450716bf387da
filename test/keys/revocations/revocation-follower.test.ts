import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { startEmbeddedPostgres } from '../../../dev/postgres/embedded-postgres.ts'
import { listReplicas } from '../../../src/cluster/replicas.ts'
import { createPostgresApiKeys } from '../../../src/keys/postgres-api-keys.ts'
import { createPropagationWatch } from '../../../src/keys/revocations/propagation.ts'
import { readAcknowledgements } from '../../../src/keys/revocations/revocation-log.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import type { Pool } from '../../../src/store/postgres/postgres.ts'
import { addReplica, createKeyDatabase, fillKeys, startFollower } from '../../support/followers.ts'
import { createPool, now } from '../../support/key-store.ts'
import { poll } from '../../support/poll.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** So seldom that what arrives during a test was announced, not polled. */
const seldom = { everyMs: 3_600_000 }

/** Waits until every replica has acknowledged the whole log. */
function acknowledged(sql: Pool, replicas = 1): Promise<boolean> {
  return poll(async () => {
    const rows = await sql<{ transaction: string }[]>`
      select distinct transaction::text from tollgate_revocations where transaction is not null`
    const all = rows.map(({ transaction }) => transaction)
    const found = await readAcknowledgements(sql, all)
    return found.length === replicas && found.every(({ missing }) => missing.length === 0)
  }, 'every replica has acknowledged')
}

/** The number of connections that listen. */
async function listeners(sql: Pool): Promise<number> {
  const { count } = await sql`
    select from pg_stat_activity
    where application_name = 'tollgate listener' and datname = current_database()
      and state = 'idle' and query like 'listen%'`
  return count
}

/** Ends the connections on which followers listen; returns their number. */
async function killListeners(sql: Pool): Promise<number> {
  const { count } = await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'tollgate listener' and datname = current_database()`
  return count
}

test('every replica is told at once', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const one = await startFollower(t, url, seldom)
  const two = await startFollower(t, url, { ...seldom, name: 'two' })
  t.equal(one.state(), 'confirmed')
  t.strictSame(two.stats().others, ['one'])
  await fillKeys(sql, 3)
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-1'`
  await sql`delete from api_keys where key_hash = 'alice-2'`
  await sql`update api_keys set last_used_at = now()`
  for (const follower of [one, two]) {
    await poll(() => follower.evicted.size === 2, 'both are evicted')
    t.strictSame([...follower.evicted].sort(), ['alice-1', 'alice-2'])
    t.equal(follower.forgotten(), 0)
  }
  await acknowledged(sql, 2)
})

test('many revocations are read in parts and acknowledged', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const follower = await startFollower(t, url, seldom)
  await fillKeys(sql, 5_000)
  await createPostgresApiKeys(sql).revokeAll({ user: 'alice' }, now)
  await acknowledged(sql)
  t.equal(follower.evicted.size, 5_000)
})

test('revocations before the start are not read', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  await fillKeys(sql, 2)
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-1'`
  const follower = await startFollower(t, url, seldom)
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-2'`
  await poll(() => follower.evicted.size > 0, 'the second one is evicted')
  t.strictSame([...follower.evicted], ['alice-2'])
})

test('none is missed while many arrive', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const users = Array.from({ length: 40 }, (_, i) => `user${i}`)
  for (const user of users) await fillKeys(sql, 60, user)
  const followers = await Promise.all(
    ['one', 'two'].map((name) => startFollower(t, url, { name, everyMs: 100 })),
  )
  const keys = createPostgresApiKeys(sql)
  const cutting = (async () => {
    for (let i = 0; i < 5; i += 1) {
      await killListeners(sql)
      await sleep(20)
    }
  })()
  await Promise.all(users.map((user) => keys.revokeAll({ user: user }, now)))
  await cutting
  await acknowledged(sql, 2)
  for (const { evicted, forgotten, faults } of followers) {
    t.equal(evicted.size, 2_400)
    t.equal(forgotten(), 0)
    t.strictSame(faults, [])
  }
})

test('a lost listener is replaced', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const follower = await startFollower(t, url, seldom)
  await fillKeys(sql, 5)
  for (let round = 1; round <= 5; round += 1) {
    // A new one may not listen yet.
    await poll(async () => (await listeners(sql)) === 1, 'the follower listens')
    await sql`update api_keys set status = 'revoked' where key_hash = ${`alice-${round}`}`
    await poll(() => follower.evicted.has(`alice-${round}`), 'the revocation is announced')
    t.equal(await killListeners(sql), 1)
  }
  t.equal(follower.forgotten(), 0)
})

test('without notifications the log is polled', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const follower = await startFollower(t, url, { url: proxy.through(url), everyMs: 250 })
  await fillKeys(sql, 4)
  let key = 0
  for (const fail of [proxy.refuse, proxy.swallow]) {
    fail()
    for (let round = 0; round < 2; round += 1) {
      key += 1
      await sql`update api_keys set status = 'revoked' where key_hash = ${`alice-${key}`}`
      await poll(() => follower.evicted.has(`alice-${key}`), 'the revocation is found', 5_000)
    }
    proxy.heal()
  }
  t.equal(follower.forgotten(), 0)
})

test('a log that was truncated is not trusted', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const follower = await startFollower(t, url, { everyMs: 100 })
  await fillKeys(sql, 3)
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-1'`
  await acknowledged(sql)
  t.equal(follower.forgotten(), 0)
  await sql`delete from tollgate_revocations`
  await poll(() => follower.forgotten() === 1, 'an emptied log is noticed')
  await sleep(300)
  t.equal(follower.forgotten(), 1, 'everything is forgotten once')
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-2'`
  await poll(() => follower.forgotten() === 2, 'entries before the next one may be lost')
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-3'`
  await poll(() => follower.evicted.has('alice-3'), 'following continues')
})

test('nothing is acknowledged while keys are being forgotten', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const forgotten = Promise.withResolvers<void>()
  let isForgetting = false
  let gaps = 0
  const follower = await startFollower(t, url, {
    everyMs: 50,
    onGap() {
      gaps += 1
    },
    forgetAll() {
      isForgetting = true
      return forgotten.promise
    },
  })
  await fillKeys(sql, 1)
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-1'`
  await acknowledged(sql)
  await sql`delete from tollgate_revocations`
  await poll(() => isForgetting, 'the gap is found')
  t.equal(gaps, 1)
  t.strictSame(follower.faults, [])
  const seenAt = async () => {
    const rows = await sql<{ at: string }[]>`
      select seen_at::text as at from tollgate_replicas where id = ${follower.id}`
    return rows[0]?.at
  }
  const before = await seenAt()
  await sleep(200)
  t.equal(await seenAt(), before)
  forgotten.resolve()
  await poll(async () => (await seenAt()) !== before, 'it polls again')
})

test('after an outage the cache is in use while all keys are being forgotten', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  await fillKeys(sql, 2)
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-1'`
  const forgotten = Promise.withResolvers<void>()
  let isForgetting = false
  const follower = await startFollower(t, proxy.through(url), {
    everyMs: 50,
    forgetAll() {
      isForgetting = true
      return forgotten.promise
    },
  })
  await acknowledged(sql)
  proxy.refuse()
  await poll(() => follower.state() === 'unavailable', 'the database is unavailable')
  await sql`delete from tollgate_revocations`
  proxy.heal()
  await poll(() => isForgetting, 'all keys are forgotten')
  // Keys in doubt are read again; while the database counts as unavailable, requests with them would be refused.
  t.equal(follower.state(), 'confirmed')
  forgotten.resolve()
})

test('a log with another history is not trusted', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const follower = await startFollower(t, url, { everyMs: 100 })
  await fillKeys(sql, 50)
  await sql`update api_keys set status = 'revoked' where key_hash <= 'alice-2'`
  await acknowledged(sql)
  // A restored backup that is further than we were; the numbers alone would fit.
  await sql.unsafe(`
    delete from tollgate_revocations where sequence > 3;
    insert into tollgate_revocations (sequence, key_hash) overriding system value
      select i, 'lost-' || i from generate_series(4, 100) i`)
  await poll(() => follower.forgotten() === 1, 'all keys are forgotten')
  await acknowledged(sql)
  // A failover that has lost the end of the log.
  await sql`delete from tollgate_revocations where sequence > 50`
  await poll(() => follower.forgotten() === 2, 'all keys are forgotten again')
  t.strictSame(follower.faults, [], 'a restore is no fault of the service')
  await acknowledged(sql)
})

test('while nothing is logged no cached key is trusted', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  await fillKeys(sql, 2)
  const follower = await startFollower(t, url, { everyMs: 100 })
  const propagation = createPropagationWatch({ pool: sql, id: randomUUID(), others: () => [] })
  await sql`alter table api_keys disable trigger tollgate_key_changed`
  await poll(
    () => follower.state() === 'unavailable',
    'the follower knows that it cannot see revocations',
  )
  await sql`update api_keys set status = 'revoked'`
  t.match(await propagation.wait(), { state: 'pending', waitingFor: ['one'] })
  await sql`alter table api_keys enable always trigger tollgate_key_changed`
  await poll(() => follower.forgotten() === 1, 'keys cached meanwhile are not trusted')
  await poll(() => follower.state() === 'confirmed', 'revocations are visible again')
  t.strictSame(follower.off, [['tollgate_key_changed'], []])
})

test('a session with the replication role is logged too', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  await fillKeys(sql, 1)
  const follower = await startFollower(t, url)
  await sql.begin(async (transaction) => {
    await transaction`set local session_replication_role = replica`
    await transaction`update api_keys set status = 'revoked'`
  })
  await poll(() => follower.evicted.has('alice-1'), 'the revocation is announced')
})

test('both replicas of one name are waited for', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  await addReplica(sql, 'one')
  const old = new Date(Date.now() - 60_000)
  await sql`update tollgate_replicas set seen_at = ${old}, place = 'elsewhere'`
  const follower = await startFollower(t, url, { everyMs: 100 })
  await poll(() => follower.stats().others.length === 1, 'the other one may be serving')
  await sql`update tollgate_replicas set place = 'one' where id <> ${follower.id}`
  await poll(() => follower.stats().others.length === 0, 'the one that it replaced has ended')
})

test('after a failover the new server is not trusted to know everything', async (t) => {
  const directory = join(temporaryFolder(t), 'postgres')
  const first = await startEmbeddedPostgres({ directory, log() {} })
  t.teardown(() => first.stop())
  const { url, port } = first
  const sql = await createPool(t, url)
  await migrate(sql)
  const follower = await startFollower(t, url, { everyMs: 100 })
  await first.stop()
  const second = await startEmbeddedPostgres({ directory, port, log() {} })
  t.teardown(() => second.stop())
  await poll(() => follower.forgotten() === 1, 'everything is read again')
  await poll(() => follower.state() === 'confirmed', 'the log is followed')
  await fillKeys(sql, 1)
  await sql`update api_keys set status = 'revoked'`
  await poll(() => follower.evicted.has('alice-1'), 'following continues')
  t.equal(follower.forgotten(), 1)
  t.strictSame(follower.faults, [])
})

test('a copy in the place of the database is not trusted to be followed', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  await fillKeys(sql, 1)
  const follower = await startFollower(t, url, { everyMs: 100 })
  const at = (database: string) => createPool(t, url.replace(/[^/]+$/, database), 1)
  const server = await at('postgres')
  const name = new URL(url).pathname.slice(1)
  const [own, copy, old] = [name, `${name}_copy`, `${name}_old`].map(server.identifier)
  const alone = (work: () => PromiseLike<unknown>) =>
    poll(async () => {
      await server`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`
      return await Promise.resolve(work()).then(
        () => true,
        () => false,
      )
    }, 'it has no connections')
  await alone(() => server`create database ${copy} template ${own}`.run())
  const copied = await at(`${name}_copy`)
  await copied`update api_keys set status = 'revoked'`
  await copied.end()
  await poll(() => follower.state() === 'confirmed', 'the original is followed')
  await sleep(200)
  t.strictSame([follower.forgotten(), follower.evicted.size], [0, 0])
  await alone(() => server`alter database ${own} rename to ${old}`.run())
  t.teardown(() => server`drop database ${old}`.run())
  await server`alter database ${copy} rename to ${own}`
  await poll(() => follower.forgotten() === 1, 'everything is read again', 10_000)
  t.strictSame(follower.faults, [])
})

test('a truncated table evicts every key', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const follower = await startFollower(t, url, seldom)
  await fillKeys(sql, 3)
  await sql`truncate api_keys`
  await poll(() => follower.forgotten() === 1, 'all keys are forgotten')
})

test('concurrent confirmations share one query', async (t) => {
  const { url } = await createKeyDatabase(t)
  const follower = await startFollower(t, url, seldom)
  await poll(() => follower.state() === 'unconfirmed', 'the lease ends')
  const all = Array.from({ length: 500 }, () => follower.confirm())
  await Promise.all(all)
  t.equal(follower.state(), 'confirmed')
})

test('an outage is noticed, and its end too', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const there = proxy.through(url)
  const follower = await startFollower(t, there, { everyMs: 100 })
  await fillKeys(sql, 1)
  for (const fail of [proxy.refuse, proxy.swallow]) {
    fail()
    await poll(() => follower.state() === 'unavailable', 'the database is unavailable')
    const age = follower.ageMs()
    await follower.confirm()
    t.equal(follower.state(), 'unavailable')
    await poll(() => follower.ageMs() > age + 50, 'the age increases')
    proxy.heal()
    await poll(() => follower.state() === 'confirmed', 'the database is back')
  }
  await sql`update api_keys set status = 'revoked'`
  await poll(() => follower.evicted.size === 1, 'the log is followed')
})

test('without the database there is no start', async (t) => {
  const { url } = await createKeyDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  proxy.refuse()
  const starting = startFollower(t, proxy.through(url))
  await t.rejects(starting, { code: 'store_unavailable' })
})

test('after a clean stop nobody waits for the replica', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const follower = await startFollower(t, url)
  t.equal((await readAcknowledgements(sql, [])).length, 1)
  await follower.stop()
  t.equal((await readAcknowledgements(sql, [])).length, 0)
  await fillKeys(sql, 1)
  await sql`update api_keys set status = 'revoked'`
  await sleep(100)
  t.equal((await readAcknowledgements(sql, [])).length, 0)
  t.equal(await killListeners(sql), 0)
})

test('other editions of the time zones are told', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const one = await startFollower(t, url, { name: 'one', zones: '2026a' })
  t.strictSame(one.stats().otherZones, [])
  const two = await startFollower(t, url, { name: 'two', zones: '2026b' })
  await startFollower(t, url, { name: 'three', zones: '2026b' })
  await startFollower(t, url, { name: 'four' })
  t.strictSame(two.stats().otherZones, ['2026a'])
  await poll(async () => one.stats().otherZones.join() === '2026b' || undefined, 'one knows it')
  const zones = (await listReplicas(sql)).map((each) => [each.name, each.zones])
  t.match(Object.fromEntries(zones), { one: '2026a', three: '2026b', four: null })
})

test('a replica whose row was deleted adds it again', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  await startFollower(t, url, { everyMs: 100 })
  await sql`delete from tollgate_replicas`
  await acknowledged(sql)
})
