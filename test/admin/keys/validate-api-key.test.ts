import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { failing, refused } from '../../support/refusals.ts'

const route = 'POST /internal/v1/api-keys/validate'

test('returns the owner of a valid key (200)', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  const answer = await api.ask(route, { body: { key } })
  t.equal(answer.statusCode, 200)
  t.strictSame(answer.json(), {
    valid: true,
    userId: id,
    keyId: id,
    keyName: 'a key',
    username: 'alice',
    groups: ['team-a'],
    subscription: 'premium',
  })
})

test('an empty list of groups is omitted', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('alice')
  await api.sql`update api_keys set user_groups = '{}'`
  const verdict = (await api.ask(route, { body: { key } })).json()
  t.equal(verdict.valid, true)
  t.notOk('groups' in verdict)
})

test('an invalid key gets a reason', async (t) => {
  const api = await createKeyApi(t)
  const says = async (key: string, reason: string) =>
    t.strictSame((await api.ask(route, { body: { key } })).json(), { valid: false, reason }, key)

  const revoked = await api.createKey('alice')
  await api.ask(`DELETE /v1/api-keys/${revoked.id}`, { as: 'alice' })
  const expiring = await api.createKey('alice', { expiresIn: '1m' })
  const stored = await api.createKey('alice')
  const unbound = await api.createKey('alice')
  await api.sql`update api_keys set status = 'expired' where id = ${stored.id}`
  await api.sql`update api_keys set subscription = ' ' where id = ${unbound.id}`

  await says(revoked.key, 'key revoked or expired')
  await says(stored.key, 'key revoked or expired')
  await says(unbound.key, 'key has no subscription bound')
  t.match((await api.ask(route, { body: { key: expiring.key } })).json(), { valid: true })
  api.now += 60_000
  await says(expiring.key, 'key revoked or expired')
  await says('sk-oai-abc_def', 'key not found')
  const garbage = ['x', 'sk-', 'sk-tg-', 'sk-tg-a_', 'sk-zz-a_b', `sk-oai-${'a'.repeat(500)}_b`]
  const mistyped = `${unbound.key.slice(0, -1)}${unbound.key.endsWith('0') ? '1' : '0'}`
  for (const key of [...garbage, '\0', '\ud800', mistyped]) await says(key, 'invalid key format')
})

test('a valid key counts as used, an invalid one does not', async (t) => {
  const api = await createKeyApi(t)
  const [valid, revoked] = [await api.createKey('alice'), await api.createKey('alice')]
  await api.ask(`DELETE /v1/api-keys/${revoked.id}`, { as: 'alice' })
  for (const key of [valid.key, revoked.key, 'sk-oai-abc_def']) {
    await api.ask(route, { body: { key } })
  }
  t.equal(api.uses.length, 1)
  await api.ask('GET /v1/models', { as: valid.key })
  t.equal(api.uses.length, 2, 'the external API counts as well')
  t.equal(new Set(api.uses).size, 1)
})

test('refuses a request without a key (400)', async (t) => {
  const api = await createKeyApi(t)
  const bodies = [undefined, null, {}, [], 'key', { key: '' }, { key: null }, { key: 5 }]
  for (const body of bodies) {
    refused(t, await api.ask(route, { body }), 400, 'invalid_request', JSON.stringify(body))
  }
  refused(t, await api.ask(route, { payload: '{"key":' }), 400, 'invalid_body')
})

test('refuses a body above one mebibyte (413)', async (t) => {
  const api = await createKeyApi(t)
  refused(t, await api.ask(route, { body: { key: 'k'.repeat(1_048_576) } }), 413, 'body_too_large')
})

test('an internal fault reveals nothing (500)', async (t) => {
  const api = await createKeyApi(t, { around: failing('fault', 'findByHashes') })
  refused(t, await api.ask(route, { body: { key: 'sk-oai-a_b' } }), 500, 'internal')
})

test('gives no verdict while the store is unavailable (503)', async (t) => {
  const api = await createKeyApi(t, { around: failing('outage', 'findByHashes') })
  refused(t, await api.ask(route, { body: { key: 'sk-oai-a_b' } }), 503, 'store_unavailable')
})

test('the endpoint does not exist on the external listener (404)', async (t) => {
  const api = await createKeyApi(t)
  const answer = await api.external.inject({
    method: 'POST',
    url: '/internal/v1/api-keys/validate',
  })
  refused(t, answer, 404, 'not_found')
})
