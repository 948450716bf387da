import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { ServiceError } from '../../../src/formats/errors.ts'
import { createPostgresApiKeys } from '../../../src/keys/postgres-api-keys.ts'
import { createPropagationWatch } from '../../../src/keys/revocations/propagation.ts'
import type { RevokedKey } from '../../../src/keys/revocations/revocation-log.ts'
import { createActiveIncreases } from '../../../src/ratelimit/increases/active-increases.ts'
import { createIncreaseStore } from '../../../src/ratelimit/increases/postgres-increases.ts'
import { counterKey } from '../../../src/ratelimit/rules/counter-key.ts'
import type { CountedLimit } from '../../../src/ratelimit/rules/limit.ts'
import { repeat } from '../../../src/runtime/loop.ts'
import { addReplica, createKeyDatabase, fillKeys, startFollower } from '../../support/followers.ts'
import { createPool, createRecord, now } from '../../support/key-store.ts'
import { poll } from '../../support/poll.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'

const patient = { deadlineMs: 20_000 }

test('a single replica waits for nobody else', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const { id, stop } = await startFollower(t, url)
  await fillKeys(sql, 1)
  await sql`delete from api_keys`
  for (const own of [id, randomUUID()]) {
    const watch = createPropagationWatch({ pool: sql, id: own, others: () => [], ...patient })
    if (own !== id) await stop()
    t.strictSame(await watch.wait(), { state: 'confirmed', replicas: 1, acknowledged: 1 })
  }
})

test('a process that has not read what another one ended does not confirm a later end', async (t) => {
  const { sql } = await createKeyDatabase(t)
  const own = await addReplica(sql, 'own')
  const keys = createPostgresApiKeys(sql)
  const record = createRecord()
  await keys.insert(record)
  const noOverlap = { prefix: null, overlapMs: 0, endAfterFirstUseMs: undefined }
  // By another process, whose answer was lost; this one has the first secret in its cache.
  await keys.rotate(record.id, 'alice', { ...noOverlap, hash: 'second' }, now)
  const repeated = { ...noOverlap, hash: 'third', unused: 'second' }
  const { replaced } = (await keys.rotate(record.id, 'alice', repeated, now)) ?? {}
  const watch = createPropagationWatch({ pool: sql, id: own, others: () => [] })
  const { state, waitingFor } = await watch.wait([replaced as RevokedKey])
  t.strictSame({ state, waitingFor }, { state: 'pending', waitingFor: ['own'] })
})

test('a revocation is confirmed when every replica has followed', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  await fillKeys(sql, 20)
  const own = await startFollower(t, url)
  const others = await Promise.all(
    ['two', 'three'].map((name) => startFollower(t, url, { name, everyMs: 3_600_000 })),
  )
  const watch = createPropagationWatch({ pool: sql, id: own.id, others: () => [], ...patient })
  for (let i = 1; i <= 20; i += 1) {
    await sql`update api_keys set status = 'revoked' where key_hash = ${`alice-${i}`}`
    t.strictSame(await watch.wait(), { state: 'confirmed', replicas: 3, acknowledged: 3 })
    for (const { evicted } of others) t.ok(evicted.has(`alice-${i}`))
  }
  t.match(watch.stats(), { confirmed: 20, pending: 0, lastMs: Number })
})

test('a replica that does not follow is named', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const own = await startFollower(t, url)
  await startFollower(t, url, { name: 'two' })
  const silent = await addReplica(sql, 'silent')
  await fillKeys(sql, 1)
  await sql`update api_keys set status = 'revoked'`
  const options = { pool: sql, id: own.id, others: () => [] }
  t.strictSame(await createPropagationWatch(options).wait(), {
    state: 'pending',
    replicas: 3,
    acknowledged: 2,
    waitingFor: ['silent'],
  })
  const waiting = createPropagationWatch({ ...options, ...patient }).wait()
  await sql`update tollgate_replicas set serves_until = now() where id = ${silent}`
  t.match(await waiting, { state: 'confirmed', replicas: 2 }, 'the replica no longer serves')
})

test('changed caps are followed, and pending while an older process may be serving', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  await fillKeys(sql, 1)
  const own = await startFollower(t, url)
  const other = await startFollower(t, url, { name: 'two', everyMs: 3_600_000 })
  const kept: unknown[] = []
  const keep = async (revoked: unknown) => kept.push(revoked) > 0
  const watch = createPropagationWatch({
    pool: sql,
    id: own.id,
    others: () => [],
    keep,
    ...patient,
  })
  const keys = createPostgresApiKeys(sql)
  const [row] = await sql<{ id: string }[]>`select id from api_keys`
  const change = async (name: string) => {
    const caps = { models: [{ namespace: 'llm', name }] }
    return [(await keys.change(row?.id ?? '', undefined, { caps }, now)) as RevokedKey]
  }
  t.match(await watch.wait(await change('a'), 'capped'), { state: 'confirmed', replicas: 2 })
  t.ok(other.evicted.has('alice-1'))
  t.strictSame(kept, [], 'the key has not ended')
  const ended = await sql`select from tollgate_revocations where ended`
  t.equal(ended.length, 0, 'nor according to the log')

  await addReplica(sql, 'older')
  await sql`update tollgate_replicas set knows = 0 where name = 'older'`
  const brief = createPropagationWatch({ pool: sql, id: own.id, others: () => [], deadlineMs: 300 })
  const changed = await change('b')
  // It has followed the log, and ignores what it has read.
  const follow = () =>
    sql`update tollgate_replicas set snapshot = pg_current_snapshot() where name = 'older'`
  await follow()
  t.match(await brief.wait(changed, 'capped'), { state: 'pending', waitingFor: ['older'] })
  const revoked = [(await keys.revoke(row?.id ?? '', undefined, now)) as RevokedKey]
  await follow()
  t.match(await brief.wait(revoked), { state: 'confirmed' }, 'it knows revocations')
})

test('an increase is confirmed once every process has read it', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const kept = createIncreaseStore(sql)
  let at = now
  const start = async (name: string) => {
    const increases = createActiveIncreases(kept, () => at)
    let isBroken = false
    const setBroken = (is: boolean) => {
      isBroken = is
    }
    const readIncreases = async () => {
      if (isBroken) throw new ServiceError('store_slow')
      await increases.follow()
    }
    const follower = await startFollower(t, url, { name, everyMs: 100, readIncreases })
    return { ...increases, id: follower.id, break: setBroken }
  }
  const counter = counterKey({ subscription: 'a', model: '#b', counted: 'tokens-1', user: 'c' })
  const more = { counter, per: 'user', limit: 300, reason: '', createdBy: 'd' } as const
  const first = await kept.add({ ...more, until: now + 9_000, createdAt: now })
  const own = await start('one')
  const other = await start('two')
  const options = { pool: sql, id: own.id, others: () => [] }
  const watch = createPropagationWatch({ ...options, ...patient })
  const written = { limit: 100 } as CountedLimit
  const limits = () => [own, other].map(({ raise }) => raise(written, counter, now).limit)
  t.strictSame(limits(), [300, 300], 'those in force are read at a start')
  await kept.add({ ...more, limit: 400, until: now + 9_000, createdAt: now })
  t.strictSame(await watch.waitForIncreases(), {
    ...{ state: 'confirmed', replicas: 2, acknowledged: 2 },
  })
  t.strictSame(limits(), [400, 400])
  t.equal(own.raise(written, counter, now + 8_999).limit, 400)
  t.equal(own.raise(written, counter, now + 9_000).limit, 100, 'it ends by itself')
  at = now + 60_000
  await own.follow()
  at = now
  t.equal(own.raise(written, counter, now).limit, 400, 'also if the clock is set back')

  await sql`delete from tollgate_increases where amount = 400`
  await poll(() => limits().every((limit) => limit === 300), 'changes from outside are read')
  other.break(true)
  await kept.remove(first?.id ?? '', now)
  const brief = createPropagationWatch({ ...options, deadlineMs: 400 })
  t.match(await brief.waitForIncreases(), { state: 'pending', waitingFor: ['two'] })
  t.strictSame(limits(), [100, 300])
  await sql`alter table tollgate_increases disable trigger tollgate_increases_changed`
  await kept.add({ ...more, until: now + 9_000, createdAt: now })
  other.break(false)
  t.match(await watch.waitForIncreases(), { state: 'confirmed' }, 'whatever the trigger does')
  t.strictSame(limits(), [300, 300])

  const gone = createPool(t, url.replace(/[^/]+$/, 'nowhere'))
  const cut = createPropagationWatch({ ...options, pool: await gone, others: () => ['two'] })
  const nobody = { state: 'pending', replicas: 2, acknowledged: 0, waitingFor: ['two'] }
  t.strictSame(await cut.waitForIncreases(), nobody, 'without the database')

  await addReplica(sql, 'older')
  await sql`update tollgate_replicas set knows = 32 where name = 'older'`
  // It follows the log, and ignores what it has read.
  const ending = new AbortController()
  const step = async () => {
    await sql`update tollgate_replicas set snapshot = pg_current_snapshot() where name = 'older'`
  }
  const following = repeat({ step, restMs: 20, onFault: t.error, signal: ending.signal })
  t.match(await brief.waitForIncreases(), { state: 'pending', waitingFor: ['older'] })
  await sql`update tollgate_replicas set knows = 33 where name = 'older'`
  t.match(await watch.waitForIncreases(), { state: 'confirmed' })
  ending.abort()
  await following
})

test('a process whose clock is ahead ends an increase that others have in force', async (t) => {
  const { sql } = await createKeyDatabase(t)
  const kept = createIncreaseStore(sql)
  const counter = counterKey({ subscription: 'a', model: '#b', counted: 'tokens-1', user: 'c' })
  const at = Date.now()
  const more = { counter, per: 'user', limit: 300, reason: '', createdBy: 'd' } as const
  const added = await kept.add({ ...more, until: at + 60_000, createdAt: at })
  t.strictSame(await kept.remove(added?.id ?? '', at + 90_000), added)
  t.strictSame(await kept.read(at), [])
})

test('later revocations are not waited for', async (t) => {
  const { sql } = await createKeyDatabase(t)
  const other = await addReplica(sql, 'other')
  await fillKeys(sql, 2)
  const keys = createPostgresApiKeys(sql)
  const revoke = async (hash: string) => {
    const [found] = await sql<{ id: string }[]>`select id from api_keys where key_hash = ${hash}`
    return [(await keys.revoke(found?.id ?? '', undefined, now)) as RevokedKey]
  }
  const options = { pool: sql, id: randomUUID(), others: () => [] }
  const watch = createPropagationWatch({ ...options, deadlineMs: 3_000 })
  const first = watch.wait(await revoke('alice-1'))
  const [seen] = await sql`select pg_current_snapshot()::text as snapshot`
  const second = watch.wait(await revoke('alice-2'))
  const { snapshot } = seen as { snapshot: string }
  await sql`update tollgate_replicas set snapshot = ${snapshot}::pg_snapshot where id = ${other}`
  t.match(await first, { state: 'confirmed' })
  t.match(await second, { state: 'pending', waitingFor: ['other'] })
  t.match(watch.stats(), { confirmed: 1, pending: 1 })
})

test('many waiting requests share their queries', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const own = await startFollower(t, url)
  await startFollower(t, url, { name: 'two' })
  await fillKeys(sql, 200)
  let asked = 0
  const pool = new Proxy(sql, {
    apply(target, self, parameters) {
      if (String(parameters[0]).includes('as newest')) asked += 1
      return Reflect.apply(target as never, self, parameters)
    },
  })
  const watch = createPropagationWatch({ pool, id: own.id, others: () => [], ...patient })
  const states = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      await sql`update api_keys set status = 'revoked' where key_hash = ${`alice-${i + 1}`}`
      return (await watch.wait()).state
    }),
  )
  t.same(new Set(states), new Set(['confirmed']))
  t.ok(asked < 200, `${asked} queries`)
})

test('if the database becomes unavailable, the state is pending', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const pool = await createPool(t, proxy.through(url))
  await pool`select 1`
  await addReplica(sql, 'silent')
  await fillKeys(sql, 1)
  await sql`update api_keys set status = 'revoked'`
  const watch = createPropagationWatch({ pool, id: randomUUID(), others: () => ['two', 'three'] })
  const expected = { state: 'pending', replicas: 2, acknowledged: 1, waitingFor: ['silent'] }
  const waiting = watch.wait()
  setTimeout(() => proxy.refuse(), 300)
  t.strictSame(await waiting, expected, 'with what was known')
  t.strictSame(
    await watch.wait(),
    { state: 'pending', replicas: 3, acknowledged: 1, waitingFor: ['two', 'three'] },
    'with those known before',
  )
  proxy.heal()
  proxy.swallow()
  t.match(await watch.wait(), { state: 'pending', replicas: 3 })
  proxy.heal()
})

test('a revocation that is not in the log is pending, reported and logged', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const own = await startFollower(t, url)
  const others = await Promise.all(
    ['two', 'three'].map((name) => startFollower(t, url, { name, everyMs: 3_600_000 })),
  )
  const unlogged: number[] = []
  const watch = createPropagationWatch({
    pool: sql,
    id: own.id,
    others: () => [],
    onUnlogged: (keys) => void unlogged.push(keys),
    ...patient,
  })
  await fillKeys(sql, 2)
  const keys = createPostgresApiKeys(sql)
  await sql`alter table api_keys disable trigger tollgate_key_changed`
  const revoked = await keys.revokeAll({ user: 'alice' }, now)
  await sql`alter table api_keys enable always trigger tollgate_key_changed`
  t.match(await watch.wait(revoked), { state: 'pending', replicas: 3, acknowledged: 1 })
  t.strictSame(unlogged, [2])
  t.match(await watch.wait(), { state: 'confirmed', replicas: 3 }, 'it has been logged since')
  for (const { evicted } of others) t.ok(evicted.has('alice-1') && evicted.has('alice-2'))
})

test('a revocation that is not stored outside of the database is pending', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const { id } = await startFollower(t, url)
  await fillKeys(sql, 1)
  const options = { pool: sql, id, others: () => [], keptAs: 'the disk', ...patient }
  const kept: (readonly RevokedKey[])[] = []
  const watch = (isKept: boolean) =>
    createPropagationWatch({
      ...options,
      async keep(revoked) {
        kept.push(revoked)
        return isKept
      },
    })
  const revoked = await createPostgresApiKeys(sql).revokeAll({ user: 'alice' }, now)
  const failing = watch(false)
  t.strictSame(await failing.wait(revoked), {
    state: 'pending',
    replicas: 1,
    acknowledged: 1,
    waitingFor: ['the disk'],
  })
  t.match(failing.stats(), { confirmed: 0, pending: 1, lastMs: undefined })
  t.match(await watch(true).wait(revoked), { state: 'confirmed' })
  t.match(kept, [[{ hash: 'alice-1', id: String, expiresAt: null }], [{ hash: 'alice-1' }]])
})
