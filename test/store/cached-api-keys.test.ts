import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'tap'
import type { ApiKeyRecord } from '../../src/core/api-key.ts'
import type { ApiKeyStore } from '../../src/store/api-keys.ts'
import { createCachedApiKeys } from '../../src/store/cached-api-keys.ts'
import { createPostgresApiKeys } from '../../src/store/postgres-api-keys.ts'
import { createMigrated, createRecord, now } from '../support/key-store.ts'

const options = { entries: 100, ttlMs: 60_000 }

/** The store with its lookups counted, and each answer held back until `release`. */
function slowed(store: ApiKeyStore) {
  let lookups = 0
  let release: (() => void) | undefined
  return {
    lookups: () => lookups,
    /** Makes the next lookup wait, after it has read, until the function is called. */
    hold(): () => void {
      const held = Promise.withResolvers<void>()
      waiting = held.promise
      release = held.resolve
      return release
    },
    store: {
      ...store,
      async findByHash(hash: string): Promise<ApiKeyRecord | undefined> {
        lookups += 1
        const record = await store.findByHash(hash)
        await waiting
        return record
      },
    },
  }
}
let waiting: Promise<void> | undefined

test('a known key is answered at once', async (t) => {
  const slow = slowed(createPostgresApiKeys(await createMigrated(t)))
  const keys = createCachedApiKeys(slow.store, options)
  const record = createRecord()
  await keys.insert(record)
  const found = await Promise.all(Array.from({ length: 10 }, () => keys.findByHash(record.hash)))
  t.strictSame(found[9], record)
  t.equal(slow.lookups(), 1)
  t.strictSame(keys.findByHash(record.hash), record)
  t.equal(await keys.findByHash('unknown'), undefined)
  t.equal(await keys.findByHash('unknown'), undefined)
  t.equal(slow.lookups(), 3)
})

test('a revocation evicts, single and bulk', async (t) => {
  const keys = createCachedApiKeys(createPostgresApiKeys(await createMigrated(t)), options)
  const revokers = [
    (record: ApiKeyRecord) => keys.revoke(record.id, undefined, now),
    (record: ApiKeyRecord) => keys.revokeAll(record.user, now),
  ]
  for (const revoke of revokers) {
    const record = createRecord()
    await keys.insert(record)
    await keys.findByHash(record.hash)
    await revoke(record)
    t.equal((await keys.findByHash(record.hash))?.status, 'revoked')
  }
})

test('a lookup that began before brings nothing back', async (t) => {
  const slow = slowed(createPostgresApiKeys(await createMigrated(t)))
  const keys = createCachedApiKeys(slow.store, options)
  for (const bulk of [false, true]) {
    const record = createRecord()
    await keys.insert(record)
    const release = slow.hold()
    const before = keys.findByHash(record.hash)
    await (bulk ? keys.revokeAll('alice', now) : keys.revoke(record.id, undefined, now))
    release()
    await before
    t.equal((await keys.findByHash(record.hash))?.status, 'revoked')
    t.equal((await keys.findByHash(record.hash))?.status, 'revoked')
  }
})

test('a failed lookup is not remembered', async (t) => {
  const store = createPostgresApiKeys(await createMigrated(t))
  const record = createRecord()
  await store.insert(record)
  let failures = 1
  const keys = createCachedApiKeys(
    {
      ...store,
      async findByHash(hash) {
        if (failures-- > 0) throw new Error('away')
        return store.findByHash(hash)
      },
    },
    options,
  )
  const both = [keys.findByHash(record.hash), keys.findByHash(record.hash)]
  for (const result of both) await t.rejects(Promise.resolve(result), { message: 'away' })
  t.strictSame(await keys.findByHash(record.hash), record)
})

test('a revoke racing lookups leaves no active record', async (t) => {
  const keys = createCachedApiKeys(createPostgresApiKeys(await createMigrated(t)), options)
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
  const store = createPostgresApiKeys(await createMigrated(t))
  const lost = async (done: Promise<unknown>): Promise<never> => {
    await done
    throw new Error('no answer')
  }
  const keys = createCachedApiKeys(
    {
      ...store,
      revoke: (id, owner, at) => lost(store.revoke(id, owner, at)),
      revokeAll: (owner, at) => lost(store.revokeAll(owner, at)),
    },
    options,
  )
  const [single, bulk, other] = [createRecord(), createRecord({ user: 'bob' }), createRecord()]
  for (const record of [single, bulk, other]) {
    await keys.insert(record)
    await keys.findByHash(record.hash)
  }
  await t.rejects(keys.revoke(single.id, undefined, now), { message: 'no answer' })
  await t.rejects(keys.revokeAll('bob', now), { message: 'no answer' })
  t.match(await keys.findByHash(single.hash), { status: 'revoked' })
  t.match(await keys.findByHash(bulk.hash), { status: 'revoked' })
  t.strictSame(keys.findByHash(other.hash), other, 'others are known as before')
})
