import { test } from 'tap'
import { snapshotOf, subscription } from '../../support/documents.ts'
import { createKeyApi, longest } from '../../support/key-api.ts'
import { failing, refused } from '../../support/refusals.ts'

const route = 'POST /v1/api-keys'
const dayMs = 86_400_000
const uuidV4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

test('a key is created and shown once (201)', async (t) => {
  const api = await createKeyApi(t)
  const body = { name: 'laptop', description: 'mine', expiresIn: '30d', owner: 'ignored' }
  const answer = await api.ask(route, { as: 'alice', body })
  t.equal(answer.statusCode, 201)
  t.equal(answer.headers['cache-control'], 'no-store')
  const created = answer.json()
  t.match(created, {
    key: /^sk-tg-[0-9A-Za-z]{15,17}_[0-9A-Za-z]{47,49}$/,
    keyPrefix: /^sk-tg-[0-9A-Za-z]{12}\.\.\.$/,
    id: uuidV4,
  })
  t.ok(created.key.startsWith(created.keyPrefix.slice(0, -3)))
  const { key, keyPrefix, id, ...rest } = created
  t.strictSame(rest, {
    name: 'laptop',
    subscription: 'premium',
    createdAt: '2026-03-01T12:00:00Z',
    expiresAt: '2026-03-31T12:00:00Z',
    ephemeral: false,
  })
  const record = (await api.ask(`GET /v1/api-keys/${id}`, { as: key })).json()
  t.match(record, { id, username: 'alice', description: 'mine', status: 'active' })
  t.notMatch(JSON.stringify(record), key.slice(30))
})

test('a name may have 128 characters, a description 1,024', async (t) => {
  const api = await createKeyApi(t)
  const [name, description] = ['🔑'.repeat(128), 'd'.repeat(1_024)]
  const { id } = await api.createKey('alice', { name: ` ${name}\n`, description })
  const record = await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })
  t.match(record.json(), { name, description })
})

test('an ephemeral key needs no name', async (t) => {
  const api = await createKeyApi(t)
  const names = new Set<string>()
  for (let i = 0; i < 5; i += 1) {
    const answer = await api.ask(route, { as: 'alice', body: { ephemeral: true, name: null } })
    const { name, expiresAt, ephemeral } = answer.json()
    t.match(name, /^ephemeral-\d{19}$/)
    t.equal(expiresAt, '2026-03-01T13:00:00Z')
    t.equal(ephemeral, true)
    names.add(name)
  }
  t.equal(names.size, 5)
})

test('a lifetime may be as long as the maximum', async (t) => {
  const api = await createKeyApi(t)
  const expiries: readonly [object, string][] = [
    [{}, '2026-05-30T12:00:00Z'],
    [{ expiresIn: null }, '2026-05-30T12:00:00Z'],
    [{ expiresIn: '90d' }, '2026-05-30T12:00:00Z'],
    [{ expiresIn: 90 * 86_400 }, '2026-05-30T12:00:00Z'],
    [{ expiresIn: 50.0 }, '2026-03-01T12:00:50Z'],
    [{ expiresIn: '2h30m' }, '2026-03-01T14:30:00Z'],
    [{ expiresIn: '1h', ephemeral: true }, '2026-03-01T13:00:00Z'],
  ]
  for (const [body, expiresAt] of expiries) {
    const answer = await api.ask(route, { as: 'alice', body: { name: 'k', ...body } })
    t.match(answer.json(), { expiresAt }, JSON.stringify(body))
  }
})

test('the Tenant may set another maximum', async (t) => {
  const tenant = {
    apiVersion: 'tollgate.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name: 'default-tenant' },
    spec: { apiKeys: { maxExpirationDays: 7 } },
  }
  const owner = subscription('only', { groups: ['team-a'] }, { 'llm/small': [[1, '1m']] })
  const model = {
    apiVersion: 'tollgate.dev/v1alpha1',
    kind: 'ModelRef',
    metadata: { name: 'small', namespace: 'llm' },
    spec: { modelRef: { kind: 'LLMInferenceService', name: 'small' } },
  }
  const api = await createKeyApi(t, { snapshot: snapshotOf(tenant, model, owner) })
  const answer = await api.ask(route, { as: 'alice', body: { name: 'k' } })
  t.match(answer.json(), { expiresAt: '2026-03-08T12:00:00Z' })
  const tooLong = await api.ask(route, { as: 'alice', body: { name: 'k', expiresIn: '8d' } })
  refused(t, tooLong, 400, 'invalid_lifetime')
  t.match(tooLong.json().error.message, /exceeds the maximum of 7 days/)
})

test('a subscription may be named with or without its namespace', async (t) => {
  const api = await createKeyApi(t)
  for (const name of ['basic', ' basic ', 'models-as-a-service/basic']) {
    const answer = await api.ask(route, { as: 'alice', body: { name: 'k', subscription: name } })
    t.match(answer.json(), { subscription: 'basic' }, name)
  }
  for (const name of ['', '  ', null]) {
    const answer = await api.ask(route, { as: 'alice', body: { name: 'k', subscription: name } })
    t.match(answer.json(), { subscription: 'premium' })
  }
})

test('an invalid field is named (400)', async (t) => {
  const api = await createKeyApi(t)
  const bad: readonly [unknown, RegExp][] = [
    [{}, /^name is required/],
    [{ name: '' }, /^name is required/],
    [{ name: null }, /^name is required/],
    [{ name: 5 }, /^name must be string/],
    [{ name: 'a\0b' }, /^name must not hold/],
    [{ name: 'a\ud800' }, /^name must not hold/],
    [{ name: 'k', description: '\0' }, /^description must not hold/],
    [{ name: 'n'.repeat(129) }, /^name must have at most 128 characters/],
    [{ name: 'a\tb' }, /^name must not hold control characters/],
    [{ name: ' \n' }, /^name is required/],
    [{ name: 'k', labels: { team: 5 } }, /^labels\.team must be string/],
    [{ name: 'k', labels: [] }, /^labels must be object/],
    [{ name: 'k', labels: { '-x': 'a' } }, /^labels must have names like "team"/],
    [{ name: 'k', labels: { a: '' } }, /^labels "a" must not be empty/],
    [{ name: 'k', labels: { a: 'x\n' } }, /^labels "a" must not hold control/],
    [{ name: 'k', description: '🔑'.repeat(1_025) }, /^description must NOT have more than 1024/],
    [{ name: 'k', description: ['x'] }, /^description must be string/],
    [{ name: 'k', subscription: 7 }, /^subscription must be string/],
    [{ name: 'k', ephemeral: 'true' }, /^ephemeral must be boolean/],
    [{ name: 'k', ephemeral: 1 }, /^ephemeral must be boolean/],
    [{ name: 'k', expiresIn: 0 }, /must be positive/],
    [{ name: 'k', expiresIn: '-5m' }, /must be positive/],
    [{ name: 'k', expiresIn: '' }, /must be positive/],
    [{ name: 'k', expiresIn: '3600' }, /^expiresIn must be like/],
    [{ name: 'k', expiresIn: '1d12h' }, /^expiresIn must be like/],
    [{ name: 'k', expiresIn: true }, /^expiresIn must be/],
    [{ name: 'k', expiresIn: {} }, /^expiresIn must be/],
    [{ name: 'k', expiresIn: 1e300 }, /exceeds the maximum of 90 days/],
    [{ name: 'k', expiresIn: '91d' }, /exceeds the maximum of 90 days/],
    [{ name: 'k', expiresIn: 90 * 86_400 + 1 }, /exceeds the maximum/],
    [{ ephemeral: true, expiresIn: '61m' }, /exceed the maximum of 1 hour/],
    [[], /^The body must be object/],
    ['name', /^The body must be object/],
    [null, /^The body must be object/],
    [undefined, /^The body must be object/],
  ]
  for (const [body, message] of bad) {
    const answer = await api.ask(route, { as: 'alice', body })
    const about = JSON.stringify(body)
    refused(t, answer, 400, undefined, about)
    t.match(answer.json().error.message, message, about)
  }
  const [count] = await api.sql`select count(*)::int as n from api_keys`
  t.equal(count?.n, 0)
})

test('a user name too long for the index of keys is refused (400)', async (t) => {
  const api = await createKeyApi(t)
  const create = (as: string) => api.ask('POST /v1/api-keys', { as, body: { name: 'n' } })
  t.equal((await create(longest)).statusCode, 201)
  const answer = await create(`${longest}x`)
  refused(t, answer, 400, 'invalid_request')
  t.match(answer.json().error.message, /2049 bytes, at most 2048/)
})

test('refuses a request without a credential (401)', async (t) => {
  const api = await createKeyApi(t)
  const credentials = ['', 'Bearer', 'Bearer ', 'Basic YTpi', 'Bearer wrong', 'Bearer a b']
  for (const authorization of credentials) {
    const headers = { authorization }
    refused(t, await api.ask(route, { headers, body: { name: 'k' } }), 401, 'credential_invalid')
  }
  const headers = { 'x-maas-username': 'alice', 'x-maas-group': '["team-a"]' }
  refused(t, await api.ask(route, { headers, body: { name: 'k' } }), 401)
})

test('refuses a key as the credential (403)', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('alice')
  const answer = await api.ask(route, { as: key, body: { name: 'k' } })
  refused(t, answer, 403, 'identity_token_required')
})

test('other users’, unknown and missing subscriptions get the same answer (403)', async (t) => {
  const api = await createKeyApi(t)
  const answers = [
    await api.ask(route, { as: 'alice', body: { name: 'k', subscription: 'b-only' } }),
    await api.ask(route, { as: 'alice', body: { name: 'k', subscription: 'nowhere' } }),
    await api.ask(route, { as: 'alice', body: { name: 'k', subscription: 'other/premium' } }),
    await api.ask(route, { as: 'alice', body: { name: 'k', subscription: 'pre\0mium\ud800' } }),
    await api.ask(route, { as: 'stranger', body: { name: 'k', subscription: 'premium' } }),
    await api.ask(route, { as: 'stranger', body: { name: 'k' } }),
  ]
  for (const answer of answers) {
    refused(t, answer, 403, 'invalid_subscription')
    t.equal(answer.body, answers[0]?.body)
  }
  t.match(answers[0]?.json().error.message, /ask an administrator/)
})

test('a failed subscription is not ready (403)', async (t) => {
  const broken = subscription('broken', { users: ['alice'] }, { 'llm/gone': [[1, '1m']] })
  const api = await createKeyApi(t, { snapshot: snapshotOf(broken) })
  const named = await api.ask(route, { as: 'alice', body: { name: 'k', subscription: 'broken' } })
  refused(t, named, 403, 'subscription_not_ready')
  const chosen = await api.ask(route, { as: 'alice', body: { name: 'k' } })
  refused(t, chosen, 403, 'invalid_subscription')
})

test('refuses a body above one mebibyte (413)', async (t) => {
  const api = await createKeyApi(t)
  const padding = 'n'.repeat(1_048_576 - 25)
  const body = { name: 'k', padding }
  t.equal((await api.ask(route, { as: 'alice', body })).statusCode, 201)
  refused(t, await api.ask(route, { as: 'alice', body: { ...body, name: 'kk' } }), 413)
})

test('an internal fault reveals nothing (500)', async (t) => {
  const api = await createKeyApi(t, { around: failing('fault', 'insert') })
  refused(t, await api.ask(route, { as: 'alice', body: { name: 'k' } }), 500, 'internal')
  t.match(api.logged(), /relation \\"api_keys\\" does not exist/)
})

test('creates no key while the store is unavailable (503)', async (t) => {
  const api = await createKeyApi(t, { around: failing('outage', 'insert') })
  refused(t, await api.ask(route, { as: 'alice', body: { name: 'k' } }), 503, 'store_unavailable')
})

test('a key has the groups that its owner had at its creation', async (t) => {
  const api = await createKeyApi(t)
  const { key, id } = await api.createKey('admin')
  api.now += dayMs
  const { groups } = (
    await api.ask('POST /internal/v1/api-keys/validate', { body: { key } })
  ).json()
  t.strictSame(groups, ['tollgate-admins', 'team-a'])
  t.strictSame((await api.keys.findById(id))?.groups, ['tollgate-admins', 'team-a'])
})

test('a user has at most MAX_KEYS_PER_USER active keys, also of concurrent requests', async (t) => {
  const api = await createKeyApi(t, { maxKeysPerUser: 3 })
  const create = (as = 'alice', body: object = { name: 'k' }) =>
    api.ask('POST /v1/api-keys', { as, body })
  const answers = await Promise.all(Array.from({ length: 8 }, () => create()))
  const made = answers.filter(({ statusCode }) => statusCode === 201)
  t.equal(made.length, 3)
  const full = answers.find(({ statusCode }) => statusCode !== 201)
  if (full === undefined) throw new Error('one is refused')
  refused(t, full, 429, 'too_many_keys')
  t.match(full.json().error.message, /^You have 3 active keys.*MAX_KEYS_PER_USER/)
  t.equal(full.headers['x-should-retry'], 'false')
  refused(t, await create('alice', { ephemeral: true }), 429, 'too_many_keys')
  t.equal((await create('bob')).statusCode, 201)

  const { id } = made[0]?.json() ?? {}
  t.equal((await api.ask(`POST /v1/api-keys/${id}/rotate`, { as: 'alice' })).statusCode, 200)
  t.equal((await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })).statusCode, 200)
  t.equal((await create('alice', { name: 'k', expiresIn: 60 })).statusCode, 201)
  refused(t, await create(), 429, 'too_many_keys')
  api.now += 61_000
  t.equal((await create()).statusCode, 201, 'one has expired')
})
