import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { failing, refused } from '../../support/refusals.ts'

const route = 'POST /internal/v1/api-keys/cleanup'
const minute = 60_000

test('deletes ephemeral keys 30 minutes after their expiry (200)', async (t) => {
  const api = await createKeyApi(t)
  const kept = await api.createKey('alice', { expiresIn: '1m' })
  const gone = await api.createKey('alice', { ephemeral: true, expiresIn: '1m' })
  const revoked = await api.createKey('alice', { ephemeral: true, expiresIn: '1m' })
  await api.ask(`DELETE /v1/api-keys/${revoked.id}`, { as: 'alice' })
  const late = await api.createKey('alice', { ephemeral: true, expiresIn: '2m' })
  api.now += 31 * minute
  t.strictSame((await api.ask(route)).json(), {
    deletedCount: 0,
    message: 'Deleted 0 ephemeral keys.',
  })
  api.now += 1
  const answer = await api.ask(route)
  t.equal(answer.statusCode, 200)
  t.strictSame(answer.json(), { deletedCount: 2, message: 'Deleted 2 ephemeral keys.' })
  t.equal(await api.keys.findById(gone.id), undefined)
  t.equal(await api.keys.findById(revoked.id), undefined)
  t.ok(await api.keys.findById(kept.id))
  t.ok(await api.keys.findById(late.id))
  api.now += minute
  t.match((await api.ask(route)).json(), { deletedCount: 1, message: 'Deleted 1 ephemeral key.' })
  t.match((await api.ask(route)).json(), { deletedCount: 0 })
})

test('the body is ignored', async (t) => {
  const api = await createKeyApi(t)
  for (const payload of ['{', '{}', '', '\0', Buffer.alloc(2_000_000)]) {
    t.equal((await api.ask(route, { payload })).statusCode, 200)
  }
})

test('two concurrent requests delete each key once', async (t) => {
  const api = await createKeyApi(t)
  for (let round = 0; round < 3; round += 1) {
    await api.sql`
      insert into api_keys (id, username, name, key_hash, user_groups, subscription, ephemeral,
        expires_at)
      select gen_random_uuid()::text, 'alice', 'k', gen_random_uuid()::text, array['a'],
        'premium', true, '2026-01-01' from generate_series(1, 4500)`
    const answers = await Promise.all(Array.from({ length: 4 }, () => api.ask(route)))
    const counts = answers.map((answer) => answer.json().deletedCount)
    t.equal(
      counts.reduce((sum, count) => sum + count),
      4_500,
      `${counts}`,
    )
  }
})

test('an internal fault reveals nothing (500)', async (t) => {
  const api = await createKeyApi(t, { around: failing('fault', 'deleteExpiredEphemeral') })
  refused(t, await api.ask(route), 500, 'internal')
})

test('deletes nothing while the store is unavailable (503)', async (t) => {
  const api = await createKeyApi(t, { around: failing('outage', 'deleteExpiredEphemeral') })
  refused(t, await api.ask(route), 503, 'store_unavailable')
})
