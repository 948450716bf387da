/** What a key sees and revokes at the API, and from where. */

import { type Test, test } from 'tap'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import {
  type CreatedKey,
  createKeyApi,
  type KeyApi,
  type KeyApiOptions,
} from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const search = 'POST /v1/api-keys/search'
const bulk = 'POST /v1/api-keys/bulk-revoke'
const caps = { tokenRateLimits: [{ limit: 1_000, window: '1m' }] }

/** alice's keys: the narrow one is made last. */
async function twoKeys(api: KeyApi, narrow: object = caps): Promise<[CreatedKey, CreatedKey]> {
  return [await api.createKey('alice', { name: 'other' }), await api.createKey('alice', narrow)]
}

async function seesItselfOnly(t: Test, api: KeyApi, narrow: CreatedKey, other: CreatedKey) {
  const as = narrow.key
  const found = (await api.ask(search, { as })).json()
  t.strictSame([found.data.map(({ id }: CreatedKey) => id), found.has_more], [[narrow.id], false])
  const paged = { pagination: { limit: 1, offset: 1 } }
  t.match((await api.ask(search, { as, body: paged })).json(), { data: [], has_more: false })
  const byPrefix = { filters: { keyPrefix: other.key.slice(0, 12) } }
  t.strictSame((await api.ask(search, { as, body: byPrefix })).json().data, [])
  t.equal((await api.ask(`GET /v1/api-keys/${narrow.id}`, { as })).statusCode, 200)
  const foreign = await api.ask(`GET /v1/api-keys/${other.id}`, { as })
  refused(t, foreign, 404, 'not_found')
  const unknown = await api.ask('GET /v1/api-keys/00000000-0000-4000-8000-000000000000', { as })
  t.equal(foreign.body, unknown.body)
  refused(t, await api.ask(`DELETE /v1/api-keys/${other.id}`, { as }), 404, 'not_found')
  const model = 'llm/small'
  const ask = (body: object) => api.ask('POST /v1/explain', { as, body: { model, ...body } })
  t.equal((await ask({})).statusCode, 200)
  t.equal((await ask({ keyId: narrow.id })).statusCode, 200)
  refused(t, await ask({ keyId: other.id }), 404, 'not_found')
  refused(t, await ask({ user: 'alice', groups: ['team-a'] }), 403, 'admin_required')
  t.match((await api.ask(bulk, { as, body: { dryRun: true } })).json(), { revokedCount: 1 })
  refused(t, await api.ask(bulk, { as, body: { username: 'bob' } }), 403, 'admin_required')
}

test('a key with caps sees and revokes itself only', async (t) => {
  const api = await createKeyApi(t)
  const [other, narrow] = await twoKeys(api)
  await seesItselfOnly(t, api, narrow, other)
  const answer = (await api.ask(bulk, { as: narrow.key })).json()
  t.match(answer, { revokedCount: 1, propagation: { state: 'confirmed' } })
  t.match(answer.message, /^Revoked 1 API key of user alice\. This key revokes only itself;/)
  refused(t, await api.ask(search, { as: narrow.key }), 401, 'credential_invalid')
  t.equal((await api.ask(search, { as: other.key })).statusCode, 200, 'the other one lives')
  const audited = api.audited.filter(({ action }) => action === 'key.bulk_revoke')
  t.match(audited.at(-1), { target: { keyId: narrow.id }, outcome: 'success', count: 1 })
})

test('a key with caps sees its own Subscription only', async (t) => {
  const all = { 'llm/small': [[100, '1m']] } as const
  const api = await createKeyApi(t, {
    snapshot: snapshotOf(
      modelRef('small'),
      accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
      ...['one', 'two'].map((name) => subscription(name, { groups: ['team-a'] }, all)),
    ),
  })
  const narrow = await api.createKey('alice', { ...caps, subscription: 'two' })
  const wide = await api.createKey('alice', { subscription: 'two' })
  const namesFor = async (as: string) => {
    const listed = ['GET /v1/subscriptions', 'GET /v1/model/small/subscriptions'].map((route) =>
      api.ask(route, { as }),
    )
    const [first, second] = (await Promise.all(listed)).map((answer) => answer.json())
    const explained = await api.ask('POST /v1/explain', { as, body: { model: 'llm/small' } })
    return [
      first.map((each: Record<string, string>) => each.subscription_id_header),
      second.map((each: Record<string, string>) => each.subscription_id_header),
      explained.json().subscriptions.map(({ name }: { name: string }) => name),
    ]
  }
  t.strictSame(await namesFor(narrow.key), [['two'], ['two'], ['two']])
  t.strictSame(await namesFor(wide.key), Array(3).fill(['one', 'two']), 'others see all')
  const asPerson = await api.ask('POST /v1/explain', {
    as: 'alice',
    body: { model: 'llm/small', keyId: narrow.id },
  })
  t.equal(asPerson.json().subscriptions.length, 2, 'and so does its owner')
})

test('a key without caps sees all keys of its owner', async (t) => {
  const api = await createKeyApi(t)
  const [other, second] = await twoKeys(api, {})
  t.equal((await api.ask(search, { as: second.key })).json().data.length, 2)
  t.equal((await api.ask(`GET /v1/api-keys/${other.id}`, { as: second.key })).statusCode, 200)
  t.match((await api.ask(bulk, { as: second.key })).json(), { revokedCount: 2 })
})

test('API_KEY_REACH=self narrows keys without caps the same way', async (t) => {
  const api = await createKeyApi(t, { keyReach: 'self' })
  const [other, narrow] = await twoKeys(api, {})
  await seesItselfOnly(t, api, narrow, other)
  t.equal((await api.ask(search, { as: 'alice' })).json().data.length, 2, 'but not a person')
  const remove = await api.ask(`DELETE /v1/api-keys/${narrow.id}`, { as: narrow.key })
  t.equal(remove.statusCode, 200)
})

test('caps that are added narrow the key at once', async (t) => {
  const api = await createKeyApi(t)
  const [other, key] = await twoKeys(api, {})
  t.equal((await api.ask(`GET /v1/api-keys/${other.id}`, { as: key.key })).statusCode, 200)
  await api.ask(`PATCH /v1/api-keys/${key.id}`, { as: 'alice', body: caps })
  refused(t, await api.ask(`GET /v1/api-keys/${other.id}`, { as: key.key }), 404, 'not_found')
})

const bound = { allowedAddresses: ['192.0.2.0/24', '2001:db8::/32'] }
const proxied: KeyApiOptions = { trustedProxies: ['loopback'] }
const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })

test('allowedAddresses hold for the API', async (t) => {
  const api = await createKeyApi(t, proxied)
  const [, { key: as, id }] = await twoKeys(api, bound)
  for (const address of ['192.0.2.9', '198.51.100.1, 192.0.2.9:123', '[2001:db8::1]:443']) {
    t.equal((await api.ask(search, { as, ...from(address) })).statusCode, 200, address)
  }
  for (const address of ['198.51.100.1', '192.0.2.9, 198.51.100.1', '192.0.2.9:65536', 'x', '']) {
    const answer = await api.ask(search, { as, ...from(address) })
    refused(t, answer, 403, 'address_not_allowed')
    t.equal(answer.headers['x-should-retry'], 'false')
  }
  refused(t, await api.ask(search, { as }), 403, 'address_not_allowed')
  t.match((await api.ask(search, { as, ...from('198.51.100.1') })).json(), {
    error: { message: /from "198\.51\.100\.1", which is outside of its allowedAddresses/ },
  })
  for (const route of ['GET /v1/me', 'GET /v1/models', 'GET /v1/limits', `GET /v1/api-keys/${id}`])
    refused(t, await api.ask(route, { as, ...from('198.51.100.1') }), 403, 'address_not_allowed')
})

test('the address is the one that Check uses', async (t) => {
  const ask = async (options: KeyApiOptions, forwarded: string) => {
    const api = await createKeyApi(t, options)
    const { key } = await api.createKey('alice', bound)
    return (await api.ask(search, { as: key, ...from(forwarded) })).statusCode
  }
  const hop = { ...proxied, trustedHops: 1 }
  t.equal(await ask(hop, '192.0.2.9, 198.51.100.1'), 200)
  t.equal(await ask(hop, '198.51.100.9, 192.0.2.9'), 403)
  t.equal(await ask(hop, '192.0.2.9'), 403, 'no proxy has named a client')
  t.equal(await ask({}, '192.0.2.9'), 403, 'the peer is not the gateway')
  const trusting = { trustedProxies: ['loopback', '198.51.100.0/24'] }
  t.equal(await ask(trusting, '192.0.2.9, 198.51.100.1'), 403, 'who connects to the gateway')
})

test('a key that is bound to addresses ends itself from anywhere, and nothing else', async (t) => {
  const api = await createKeyApi(t, proxied)
  const elsewhere = from('198.51.100.1')
  for (const own of [
    ({ id }: CreatedKey) => [`DELETE /v1/api-keys/${id}`],
    ({ key }: CreatedKey) => ['POST /v1/api-keys/revoke', { key }],
    () => [bulk],
  ] as ((made: CreatedKey) => [string, object?])[]) {
    const [other, narrow] = await twoKeys(api, bound)
    const ask = (route: string, body?: object) =>
      api.ask(route, { as: narrow.key, ...elsewhere, body })
    const closed = [
      [`DELETE /v1/api-keys/${other.id}`],
      ['POST /v1/api-keys/revoke', { key: other.key }],
      [bulk, { dryRun: true }],
      [bulk, { username: 'bob' }],
    ] as [string, object?][]
    for (const [route, body] of closed)
      refused(t, await ask(route, body), 403, 'address_not_allowed')
    const [route, body] = own(narrow)
    t.equal((await ask(route, body)).statusCode, 200, route)
  }
})

test('a request from elsewhere that cannot be read is refused for its address', async (t) => {
  const api = await createKeyApi(t, proxied)
  const { key: as } = await api.createKey('alice', bound)
  for (const [route, payload] of [
    ['POST /v1/api-keys/revoke', '{}'],
    ['POST /v1/api-keys/revoke', '{"key":'],
    [bulk, '{"username":5}'],
    [bulk, '{"username":"\\u0000"}'],
    [bulk, '"'],
  ] as const) {
    const ask = (address: string) => api.ask(route, { as, payload, ...from(address) })
    refused(t, await ask('198.51.100.1'), 403, 'address_not_allowed', payload)
    t.equal((await ask('192.0.2.9')).statusCode, 400)
  }
})

test('a bound key from elsewhere takes nothing from the limit of the others', async (t) => {
  const api = await createKeyApi(t, { ...proxied, rate: { limit: 3, windowMs: 60_000 } })
  const [other, { key: as }] = await twoKeys(api, bound)
  for (let i = 0; i < 5; i += 1) {
    refused(t, await api.ask(search, { as, ...from('198.51.100.1') }), 403)
  }
  t.equal((await api.ask(search, { as: other.key })).statusCode, 200)
})
