import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { ServiceError } from '../../src/formats/errors.ts'
import {
  type CachedApiKeys,
  createCachedApiKeys,
  type KeyCacheOptions,
} from '../../src/keys/cached-api-keys.ts'
import { createPostgresApiKeys } from '../../src/keys/postgres-api-keys.ts'
import type { ApiKeyRecord } from '../../src/keys/rules/api-key.ts'
import type { ApiKeyTable, FoundKey } from '../../src/keys/store.ts'
import { createMigrated, createRecord, knownOf, now } from '../support/key-store.ts'
import { alwaysFresh, createFakeFreshness, createFakeTable } from '../support/key-table.ts'
import { poll } from '../support/poll.ts'

const minute = 60_000

/** A cache over Postgres, with the queries for hashes recorded. */
async function createStored(
  t: Test,
  around: (table: ApiKeyTable) => Partial<ApiKeyTable> = () => ({}),
) {
  const table = createPostgresApiKeys(await createMigrated(t))
  const queries: (readonly string[])[] = []
  const keys = createCachedApiKeys(
    {
      ...table,
      findByHashes(hashes) {
        queries.push(hashes)
        return table.findByHashes(hashes)
      },
      ...around(table),
    },
    { entries: 10_000, freshness: alwaysFresh },
  )
  return { keys, table, queries }
}

/** A cache over a table in memory, with a freshness and a clock that the test sets. */
function createFaked(options: Partial<KeyCacheOptions> = {}) {
  const fake = createFakeTable()
  const freshness = createFakeFreshness()
  const clock = { now: 0 }
  const keys = createCachedApiKeys(fake.table, {
    entries: 100,
    freshness,
    monotonic: () => clock.now,
    ...options,
  })
  return { ...fake, freshness, clock, keys }
}

/** A key in the cache. */
async function remember({ keys, add }: ReturnType<typeof createFaked>): Promise<FoundKey> {
  const row = add()
  await keys.findByHash(row.hash)
  return row
}

function isUnavailable(t: Test, keys: CachedApiKeys, hash: string, title = hash): void {
  t.throws(() => keys.findByHash(hash), { code: 'store_unavailable' }, title)
}

test('a known key is answered synchronously', async (t) => {
  const { keys, queries } = await createStored(t)
  const record = createRecord()
  await keys.insert(record)
  const found = await Promise.all(Array.from({ length: 10 }, () => keys.findByHash(record.hash)))
  t.match(found[9], knownOf(record))
  t.equal(queries.length, 1)
  t.match(keys.findByHash(record.hash), knownOf(record))
  t.match(keys.stats(), { entries: 1, hits: 1, misses: 10, queries: 1 })
})

test('500 keys that are not cached take few queries', async (t) => {
  const { keys, queries } = await createStored(t)
  const records = Array.from({ length: 500 }, (_, i) => createRecord({ user: `user ${i}` }))
  for (const record of records) await keys.insert(record)
  const found = await Promise.all(records.map(({ hash }) => keys.findByHash(hash)))
  t.strictSame(
    found.map((key) => key?.user),
    records.map(({ user }) => user),
  )
  t.equal(queries.length, 1)
})

test('a flood of invented keys locks nobody out', async (t) => {
  const { keys, queries } = await createStored(t)
  const [warm, ...cold] = Array.from({ length: 41 }, () => createRecord())
  for (const record of [warm as ApiKeyRecord, ...cold]) await keys.insert(record)
  await keys.findByHash(warm?.hash ?? '')
  const flood: (readonly [string, unknown])[] = []
  const honest: unknown[] = []
  for (let i = 0; i < 10_000; i += 1) {
    const answer = keys.findByHash(`invented ${i}`, () => '192.0.2.66')
    flood.push([`${i}`, Promise.resolve(answer).catch((error) => error.code)])
    if (i % 250 === 0) {
      honest.push(keys.findByHash(cold[i / 250]?.hash ?? '', () => `198.51.100.${i / 250}`))
      t.match(keys.findByHash(warm?.hash ?? ''), { status: 'active' }, 'synchronously')
    }
    if (i % 1_000 === 999) await nextTurn()
  }
  for (const key of await Promise.all(honest)) t.match(key, { status: 'active' })
  const answers = new Set(await Promise.all(flood.map(([, answer]) => answer)))
  t.ok(answers.has(undefined), 'some are refused after a look-up')
  for (const code of [undefined, 'store_unavailable']) answers.delete(code)
  t.equal(answers.size, 0, 'others with 503, without one')
  t.ok(queries.length < 100, `${queries.length} queries`)
})

test('an unknown key is not looked up again at once', async (t) => {
  const { keys, queries, clock, add } = createFaked()
  t.equal(await keys.findByHash('a'), undefined)
  t.equal(keys.findByHash('a'), undefined, 'synchronously')
  t.equal(queries.length, 1)
  t.equal(keys.stats().unknownHits, 1)
  add({ hash: 'a' })
  clock.now = 5_000
  t.match(await keys.findByHash('a'), { status: 'active' })
})

test('a key that this process creates is known at once', async (t) => {
  const { keys, queries, hold } = createFaked()
  const [asked, underWay] = [createRecord(), createRecord()]
  await keys.findByHash(asked.hash)
  const release = hold()
  const early = keys.findByHash(underWay.hash)
  await poll(() => queries.length === 2, 'the look-up is under way')
  for (const record of [asked, underWay]) await keys.insert(record)
  release()
  t.match(await early, { id: underWay.id })
  t.match(await keys.findByHash(asked.hash), { id: asked.id })
})

test('a revocation evicts, single and bulk', async (t) => {
  const { keys } = await createStored(t)
  const revokers = [
    (record: ApiKeyRecord) => keys.revoke(record.id, undefined, now),
    (record: ApiKeyRecord) => keys.revokeAll({ user: record.user }, now),
  ]
  for (const revoke of revokers) {
    const record = createRecord()
    await keys.insert(record)
    await keys.findByHash(record.hash)
    await revoke(record)
    t.equal((await keys.findByHash(record.hash))?.status, 'revoked')
  }
})

test('a revocation by another process evicts when it is announced', async (t) => {
  const world = createFaked()
  const { keys, rows, queries } = world
  const row = await remember(world)
  const other = await remember(world)
  rows.set(row.hash, { ...row, status: 'revoked' })
  t.match(keys.findByHash(row.hash), { status: 'active' }, 'not announced yet')
  keys.evict([row.hash, 'never seen'])
  t.match(await keys.findByHash(row.hash), { status: 'revoked' })
  t.match(keys.findByHash(other.hash), { status: 'active' }, 'other keys stay known')
  t.equal(queries.length, 3)
})

test('a change without an announcement is found within a minute', async (t) => {
  const world = createFaked()
  const { keys, rows, queries, clock, freshness } = world
  const [used, unused] = [await remember(world), await remember(world)]
  for (const row of [used, unused]) rows.set(row.hash, { ...row, status: 'revoked' })
  clock.now = 14_999
  t.match(keys.findByHash(used.hash), { status: 'active' })
  t.equal(queries.length, 2)
  clock.now = 30_000
  t.match(
    keys.findByHash(used.hash),
    { status: 'active' },
    'the key is read again in the background',
  )
  await poll(() => queries.length === 3, 'the key is read')
  await poll(
    async () => (await keys.findByHash(used.hash))?.status === 'revoked',
    'the change is in the cache',
  )
  clock.now = 60_000
  freshness.is = 'unavailable'
  t.match(keys.findByHash(unused.hash), { status: 'active' }, 'while there is no answer')
  freshness.is = 'confirmed'
  t.match(await keys.findByHash(unused.hash), { status: 'revoked' }, 'before the query is answered')
})

test('a look-up that began before an eviction is not used', async (t) => {
  const world = createFaked()
  const { keys, rows, queries, hold, add } = world
  const evictions: readonly ((row: FoundKey) => unknown)[] = [
    (row) => keys.evict([row.hash]),
    () => keys.forgetAll(),
    (row) => keys.revoke(row.id, undefined, now),
  ]
  for (const evict of evictions) {
    const row = add()
    const release = hold()
    const before = queries.length
    const answer = keys.findByHash(row.hash)
    await poll(() => queries.length > before, 'the look-up is under way')
    rows.set(row.hash, { ...row, status: 'revoked' })
    await evict(row)
    release()
    t.match(await answer, { status: 'revoked' })
    t.match(await keys.findByHash(row.hash), { status: 'revoked' })
  }
})

test('who decides by what was known of keys is told before it is known no more', async (t) => {
  const told: unknown[] = []
  const world = createFaked({ onForgotten: (hashes) => void told.push(hashes) })
  const { keys, rows, table, clock } = world
  const row = await remember(world)
  const tell = async (act: () => unknown) => {
    told.length = 0
    await act()
    return [...told]
  }
  t.strictSame(await tell(() => keys.evict([])), [], 'each poll evicts what it has found')
  t.strictSame(await tell(() => keys.evict([row.hash])), [[row.hash]])
  t.strictSame(await tell(() => keys.forgetAll()), [undefined])
  await keys.findByHash(row.hash)
  t.strictSame(await tell(() => keys.revoke(row.id, undefined, now)), [[row.hash]])
  const failing = async () => {
    table.revoke = () => Promise.reject(new Error('no answer'))
    await keys.revoke(row.id, undefined, now).catch(() => {})
  }
  t.strictSame(await tell(failing), [undefined], 'it may have been committed')

  const [unlogged, gone] = [await remember(world), await remember(world)]
  rows.set(unlogged.hash, { ...unlogged, status: 'revoked' })
  rows.delete(gone.hash)
  clock.now += 2 * minute
  const review = () => Promise.all([unlogged, gone].map(({ hash }) => keys.findByHash(hash)))
  t.strictSame(await tell(review), [[unlogged.hash], [gone.hash]], 'by reading it again')
})

test('a key says until when it is trusted', async (t) => {
  const world = createFaked()
  const { keys, clock } = world
  clock.now = 5_000
  const { hash } = await remember(world)
  const { trustedUntil = 0 } = (await keys.findByHash(hash)) ?? {}
  t.ok(trustedUntil >= 5_000 + 45_000 - 1 && trustedUntil <= 5_000 + 60_000, `${trustedUntil}`)
  clock.now = trustedUntil
  t.type(keys.findByHash(hash), Promise, 'it is read again before it is used')
})

test('after a gap every key is read again, together', async (t) => {
  const world = createFaked()
  const { keys, rows, queries } = world
  const all = await Promise.all(Array.from({ length: 100 }, () => remember(world)))
  const before = queries.length
  for (const row of all) rows.set(row.hash, { ...row, status: 'revoked' })
  keys.forgetAll()
  t.equal(keys.stats().entries, 100)
  t.equal(queries.length, before, 'not before they are used')
  const found = await Promise.all(all.map(({ hash }) => keys.findByHash(hash)))
  t.ok(found.every((key) => key?.status === 'revoked'))
  t.equal(queries.length, before + 1)
})

test('keys in doubt do not count as a flood', async (t) => {
  const world = createFaked({ entries: 10_000 })
  const { keys, add } = world
  const rows = Array.from({ length: 6_000 }, () => add())
  for (let i = 0; i < rows.length; i += 1_000) {
    await Promise.all(rows.slice(i, i + 1_000).map(({ hash }) => keys.findByHash(hash)))
  }
  keys.forgetAll()
  const found = await Promise.all(rows.map(({ hash }) => keys.findByHash(hash, () => '192.0.2.1')))
  t.ok(found.every((key) => key?.status === 'active'))
})

test('a key that is not confirmed is confirmed before it is used', async (t) => {
  const world = createFaked()
  const { keys, freshness, rows } = world
  const [row, other] = [await remember(world), await remember(world)]
  freshness.is = 'unconfirmed'
  freshness.onConfirm = () => {
    rows.set(row.hash, { ...row, status: 'revoked' })
    keys.evict([row.hash])
    return 'confirmed'
  }
  const answers = [keys.findByHash(row.hash), keys.findByHash(other.hash)]
  for (const answer of answers) t.ok(answer instanceof Promise)
  t.match(await Promise.all(answers), [{ status: 'revoked' }, { status: 'active' }])
})

test('a key read before a pause is confirmed too', async (t) => {
  const { keys, freshness, rows, queries, hold, add } = createFaked()
  const row = add()
  const release = hold()
  const answer = keys.findByHash(row.hash)
  await poll(() => queries.length === 1, 'the look-up is under way')
  freshness.is = 'unconfirmed'
  freshness.onConfirm = () => {
    rows.set(row.hash, { ...row, status: 'revoked' })
    keys.evict([row.hash])
    return 'confirmed'
  }
  release()
  t.match(await answer, { status: 'revoked' })
})

test('in an outage known keys are valid, and no others', async (t) => {
  const world = createFaked({ outageGraceMs: 15 * minute })
  const { keys, freshness, queries, add } = world
  const [row, unknownSince] = [await remember(world), 'unknown']
  await keys.findByHash(unknownSince)
  const before = queries.length
  freshness.is = 'unavailable'
  freshness.age = 15 * minute - 1
  t.match(keys.findByHash(row.hash), { status: 'active', ageMs: 15 * minute - 1 }, 'synchronously')
  isUnavailable(t, keys, add().hash, 'a key not seen before')
  isUnavailable(t, keys, unknownSince, 'even a hash that was unknown')
  freshness.age = 15 * minute
  isUnavailable(t, keys, row.hash, 'the grace period is over')
  t.equal(queries.length, before, 'nothing was queried')
  freshness.is = 'confirmed'
  t.match(
    keys.findByHash(row.hash),
    { status: 'active', ageMs: undefined },
    'recovers after the outage',
  )
  t.match(await keys.findByHash(add().hash), { status: 'active' })
})

test('without a grace period a key is valid for a minute', async (t) => {
  const world = createFaked({ outageGraceMs: 0 })
  const { keys, freshness } = world
  const { hash } = await remember(world)
  freshness.is = 'unavailable'
  freshness.age = minute - 1
  t.match(keys.findByHash(hash), { status: 'active' })
  freshness.age = minute
  isUnavailable(t, keys, hash)
  freshness.age = Number.POSITIVE_INFINITY
  isUnavailable(t, keys, hash, 'never confirmed')
})

test('a key in doubt is not valid in an outage', async (t) => {
  const world = createFaked()
  const { hash } = await remember(world)
  world.keys.forgetAll()
  world.freshness.is = 'unavailable'
  isUnavailable(t, world.keys, hash)
})

test('a store that fails during a look-up answers 503', async (t) => {
  const world = createFaked()
  const { keys, freshness } = world
  const { hash } = await remember(world)
  freshness.is = 'unconfirmed'
  freshness.onConfirm = () => 'unavailable'
  freshness.age = 7
  const answer = keys.findByHash(hash)
  await poll(() => freshness.is === 'unavailable', 'the store is unavailable')
  freshness.is = 'confirmed'
  t.match(keys.findByHash(hash), { ageMs: undefined }, 'another request, answered meanwhile')
  freshness.is = 'unavailable'
  t.match(await answer, { status: 'active', ageMs: 7 }, 'known and recent')
  freshness.is = 'unconfirmed'
  freshness.age = 60 * minute
  await t.rejects(async () => keys.findByHash(hash), { code: 'store_unavailable' })
})

test('a known key that cannot be read again is valid, unless it was evicted', async (t) => {
  const world = createFaked()
  const { keys, clock, failWith, freshness } = world
  const [row, evicted] = [await remember(world), await remember(world)]
  // As in the first second of an outage.
  clock.now = 60_001
  freshness.age = 7
  failWith(new ServiceError('store_unavailable'))
  t.match(await keys.findByHash(row.hash), { status: 'active', ageMs: 7 })
  const answer = keys.findByHash(evicted.hash)
  keys.evict([evicted.hash])
  await t.rejects(Promise.resolve(answer), { code: 'store_unavailable' })
  freshness.age = 15 * minute
  await t.rejects(async () => keys.findByHash(row.hash), { code: 'store_unavailable' })
  freshness.age = 7
  failWith(new Error('a bug'))
  await t.rejects(async () => keys.findByHash(row.hash), { message: 'a bug' })
  failWith(undefined)
  t.match(await keys.findByHash(row.hash), { status: 'active', ageMs: undefined })
})

test('while the table is too slow, known keys are valid at once', async (t) => {
  const world = createFaked({ outageGraceMs: 15 * minute })
  const { keys, clock, failWith, hold, queries, add } = world
  const [row, evicted] = [await remember(world), await remember(world)]
  clock.now = 60_001
  failWith(new ServiceError('store_slow'))
  t.match(await keys.findByHash(row.hash), { status: 'active', ageMs: 0 })
  await t.rejects(async () => keys.findByHash(add().hash), { code: 'store_slow' }, 'no others')
  keys.evict([evicted.hash])
  await t.rejects(async () => keys.findByHash(evicted.hash), { code: 'store_slow' }, 'evicted')

  failWith(undefined)
  const release = hold()
  clock.now += 7_000
  const before = queries.length
  t.match(await keys.findByHash(row.hash), { status: 'active', ageMs: 7_000 }, 'is not waited for')
  await poll(() => queries.length === before + 1, 'the key is read meanwhile')
  release()
  await poll(async () => (await keys.findByHash(row.hash))?.ageMs === undefined, 'it has been read')

  clock.now += 60_001
  failWith(new ServiceError('store_slow'))
  t.match(await keys.findByHash(row.hash), { ageMs: 0 })
  clock.now += 15 * minute
  await t.rejects(async () => keys.findByHash(row.hash), { code: 'store_slow' }, 'not for ever')
  failWith(undefined)
  t.match(await keys.findByHash(row.hash), { status: 'active', ageMs: undefined })
})

test('a state that keeps changing is not waited for', async (t) => {
  const world = createFaked()
  const { keys, freshness } = world
  const { hash } = await remember(world)
  freshness.is = 'unconfirmed'
  freshness.onConfirm = () => 'unconfirmed'
  await t.rejects(async () => keys.findByHash(hash), { code: 'store_unavailable' })
})

test('a failed look-up is not cached', async (t) => {
  const { keys, failWith, add } = createFaked()
  const { hash } = add()
  failWith(new Error('unavailable'))
  const both = [keys.findByHash(hash), keys.findByHash(hash)]
  for (const result of both) await t.rejects(Promise.resolve(result), { message: 'unavailable' })
  failWith(undefined)
  t.match(await keys.findByHash(hash), { status: 'active' })
})

test('a revocation that races with look-ups leaves no active record', async (t) => {
  const { keys } = await createStored(t)
  for (let round = 0; round < 20; round += 1) {
    const record = createRecord()
    await keys.insert(record)
    let over = false
    const lookups = Array.from({ length: 4 }, async () => {
      while (!over) {
        await keys.findByHash(record.hash)
        await nextTurn()
      }
    })
    await keys.revoke(record.id, undefined, now)
    const after = await keys.findByHash(record.hash)
    over = true
    await Promise.all(lookups)
    t.equal(after?.status, 'revoked')
    t.equal((await keys.findByHash(record.hash))?.status, 'revoked')
  }
})

test('a revocation whose answer was lost evicts too', async (t) => {
  const lost = async (done: Promise<unknown>): Promise<never> => {
    await done
    throw new Error('no answer')
  }
  const { keys, queries } = await createStored(t, (table) => ({
    revoke: (id, owner, at) => lost(table.revoke(id, owner, at)),
    revokeAll: (scope, at) => lost(table.revokeAll(scope, at)),
  }))
  const [single, bulk, other] = [createRecord(), createRecord({ user: 'bob' }), createRecord()]
  for (const record of [single, bulk, other]) {
    await keys.insert(record)
    await keys.findByHash(record.hash)
  }
  await t.rejects(keys.revoke(single.id, undefined, now), { message: 'no answer' })
  await t.rejects(keys.revokeAll({ user: 'bob' }, now), { message: 'no answer' })
  t.match(await keys.findByHash(single.hash), { status: 'revoked' })
  t.match(await keys.findByHash(bulk.hash), { status: 'revoked' })
  const before = queries.length
  await t.rejects(keys.revoke(other.id, 'bob', now), { message: 'no answer' })
  t.match(keys.findByHash(other.hash), { status: 'active' }, 'other keys stay known')
  t.equal(queries.length, before, 'nobody can evict keys of other users')
})

test('the most recently used keys are known from the start', async (t) => {
  const { keys, rows, queries, add } = createFaked()
  const [first, second] = [add(), add()]
  add()
  t.equal(await keys.warm(2, now), 2)
  for (const { hash } of [first, second])
    t.match(keys.findByHash(hash), { hash: undefined, status: 'active' })
  t.equal(queries.length, 0)
  rows.set(first.hash, { ...first, status: 'revoked' })
  t.equal(await keys.warm(2, now), 0, 'known keys are left as they are')
})

test('loading at the start brings back no evicted key', async (t) => {
  for (const [evict, warmed] of [
    [(keys: CachedApiKeys, row: FoundKey) => keys.evict([row.hash]), 1],
    [(keys: CachedApiKeys) => keys.forgetAll(), 0],
  ] as const) {
    const { keys, rows, hold, add } = createFaked()
    const [row, other] = [add(), add()]
    const release = hold()
    const warming = keys.warm(10, now)
    await nextTurn()
    rows.set(row.hash, { ...row, status: 'revoked' })
    evict(keys, row)
    release()
    t.equal(await warming, warmed)
    t.match(await keys.findByHash(row.hash), { status: 'revoked' })
    t.match(await keys.findByHash(other.hash), { status: 'active' })
  }
})

test('an ended key is revoked, whatever the table says', async (t) => {
  const { table, add } = createFakeTable()
  const ended = new Set<string>()
  let revived = 0
  const keys = createCachedApiKeys(table, {
    entries: 10,
    freshness: alwaysFresh,
    endOf: (hash) => (ended.has(hash) ? 0 : undefined),
    onRevived() {
      revived += 1
    },
  })
  const { hash } = add()
  const other = add()
  ended.add(hash)
  t.match(await keys.findByHash(hash), { status: 'revoked' })
  t.match(keys.findByHash(hash), { status: 'revoked' }, 'from the cache too')
  t.match(await keys.findByHash(other.hash), { status: 'active' })
  t.equal(revived, 1)
  const cold = createCachedApiKeys(table, {
    entries: 10,
    freshness: alwaysFresh,
    endOf: (each) => (each === hash ? 0 : undefined),
  })
  await cold.warm(10, now)
  t.match(cold.findByHash(hash), { status: 'revoked' })
})
