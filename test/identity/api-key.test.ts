import { test } from 'tap'
import { createVerifyKey } from '../../src/identity/api-key.ts'
import { createMemoryApiKeys } from '../support/memory-api-keys.ts'

const now = 1_000_000
const markers = { own: 'tg', accepted: new Set(['oai']) }

test('an active key is its owner of then', async (t) => {
  const keys = createMemoryApiKeys()
  const key = keys.mint({ id: 'id-1', user: 'ada', groups: ['then'], subscription: 'basic' })
  t.strictSame(createVerifyKey(keys, markers)(key, now), {
    by: 'key',
    user: 'ada',
    groups: ['then'],
    keyId: 'id-1',
    subscription: 'basic',
  })
})

test('other keys are nobody', async (t) => {
  const keys = createMemoryApiKeys()
  const verify = createVerifyKey(keys, markers)
  for (const [title, key] of [
    ['revoked', keys.mint({ status: 'revoked' })],
    ['stored as expired', keys.mint({ status: 'expired', expiresAt: now + 1 })],
    ['at its very second', keys.mint({ expiresAt: now })],
    ['past', keys.mint({ expiresAt: now - 1 })],
    ['unknown', 'sk-oai-a_b'],
  ] as const) {
    t.equal(verify(key, now), null, title)
  }
  t.match(verify(keys.mint({ expiresAt: now + 1 }), now), { by: 'key' })
})

test('the store is asked only for well-formed keys', async (t) => {
  const keys = createMemoryApiKeys()
  const verify = createVerifyKey(keys, markers)
  const key = keys.mint()
  for (const wrong of [
    '',
    'sk-',
    'sk-tg-a_b',
    'sk-xyz-a_b',
    `${key}0`,
    key.slice(1),
    key.replace('_', '-'),
    keys.mint({}, 'other'),
  ]) {
    t.equal(verify(wrong, now), null)
  }
  t.strictSame(keys.asked, [])
})

test('a late store is waited for', async (t) => {
  const keys = createMemoryApiKeys()
  const verify = createVerifyKey({ findByHash: async (hash) => keys.findByHash(hash) }, markers)
  const answer = verify(keys.mint(), now)
  t.ok(answer instanceof Promise)
  t.match(await answer, { user: 'ada' })
  t.equal(await verify('sk-oai-a_b', now), null)
  const broken = createVerifyKey({ findByHash: () => Promise.reject(new Error('away')) }, markers)
  await t.rejects(async () => broken(keys.mint(), now), /away/)
})
