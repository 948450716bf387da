import { test } from 'tap'
import { createKeyCache } from '../../src/keys/key-cache.ts'
import { compileCaps } from '../../src/keys/rules/compiled-caps.ts'
import { createRecord, knownOf } from '../support/key-store.ts'

test('a key is kept as it was read', async (t) => {
  const keys = createKeyCache(10)
  const record = createRecord({ groups: ['a "b"', 'c,d', 'ü'], expiresAt: null })
  t.match(keys.set(record.hash, record), knownOf(record))
  t.match(keys.get(record.hash), knownOf(record))
  t.notOk('name' in (keys.get(record.hash) ?? {}), 'only its own fields')
  t.equal(keys.get('another'), undefined)
})

test('caps are kept with the key', async (t) => {
  const keys = createKeyCache(10)
  const capped = compileCaps(createRecord({ caps: { allowedAddresses: ['::1'] } }))
  keys.set('a', { ...createRecord(), ...(capped && { capped }) })
  t.equal(keys.get('a')?.capped, capped)
})

test('the least recently used key is removed first', async (t) => {
  const keys = createKeyCache(2)
  for (const hash of ['a', 'b']) keys.set(hash, createRecord())
  keys.get('a')
  keys.set('c', createRecord())
  t.strictSame(
    ['a', 'b', 'c'].map((hash) => keys.has(hash)),
    [true, false, true],
  )
  t.equal(keys.size, 2)
})

test('equal owners and groups are stored once', async (t) => {
  const keys = createKeyCache(10)
  const copy = (text: string) => Buffer.from(text).toString()
  const make = () => createRecord({ user: copy('ann'), groups: [copy('team'), copy('all')] })
  t.equal(keys.set('a', make()).groups, keys.set('b', make()).groups)
  const other = keys.set('c', createRecord({ groups: ['team'] }))
  t.strictSame(other.groups, ['team'])
})

test('keys in doubt must be set again', async (t) => {
  const keys = createKeyCache(10)
  for (const hash of ['a', 'b']) keys.set(hash, createRecord())
  keys.doubtAll()
  t.equal(keys.get('a'), undefined)
  t.ok(keys.has('a'))
  keys.set('a', createRecord())
  t.ok(keys.get('a'))
  t.equal(keys.get('b'), undefined)
})

test('keys are removed singly or by a condition', async (t) => {
  const keys = createKeyCache(10)
  for (const user of ['ann', 'bob', 'cid']) keys.set(user, createRecord({ user }))
  keys.delete('ann')
  keys.deleteWhere(({ user }) => user === 'bob')
  t.strictSame(
    ['ann', 'bob', 'cid'].map((hash) => keys.has(hash)),
    [false, false, true],
  )
})
