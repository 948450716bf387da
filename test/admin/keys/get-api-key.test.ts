import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { createUsageLedger } from '../../../src/usage/ledger/postgres/ledger.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { failing, refused } from '../../support/refusals.ts'
import { unpriced } from '../../support/unpriced.ts'

test('the owner and an administrator may read a key (200)', async (t) => {
  const api = await createKeyApi(t, { ledger: false })
  const { id, key } = await api.createKey('alice', { name: 'laptop', expiresIn: '1h' })
  const answers = [
    await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' }),
    await api.ask(`GET /v1/api-keys/${id}`, { as: key }),
    await api.ask(`GET /v1/api-keys/${id}`, { as: 'admin' }),
  ]
  for (const answer of answers) {
    t.equal(answer.statusCode, 200)
    t.strictSame(answer.json(), {
      id,
      name: 'laptop',
      keyPrefix: key.slice(0, 'sk-tg-'.length + 6),
      username: 'alice',
      subscription: 'premium',
      creationDate: '2026-03-01T12:00:00Z',
      createdAt: '2026-03-01T12:00:00Z',
      expirationDate: '2026-03-01T13:00:00Z',
      expiresAt: '2026-03-01T13:00:00Z',
      status: 'active',
      ephemeral: false,
    })
  }
})

test('a record says that the key ends soon, until it has ended', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice', { expiresIn: '10h' })
  const soon = async () =>
    (await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json().expiresSoon
  const start = api.now
  api.now = start + 9 * 3_600_000 - 1
  t.equal(await soon(), undefined)
  api.now += 1
  t.equal(await soon(), true)
  t.match((await api.ask('POST /v1/api-keys/search', { as: 'alice' })).json().data, [
    { id, expiresSoon: true },
  ])
  api.now = start + 10 * 3_600_000
  t.equal(await soon(), undefined)
})

test('a key has its use of today and of this month', async (t) => {
  const api = await createKeyApi(t)
  const [one, other] = [await api.createKey('alice'), await api.createKey('alice')]
  api.now = Date.UTC(2026, 2, 2, 0, 30)
  const ledger = createUsageLedger(api.sql)
  const { revision } = await ledger.open('journal')
  const group = { user: 'alice', subscription: 'premium', model: 'llm/small', payer: '' }
  const rows = [
    [one.id, 2, 1],
    [one.id, 2, 10],
    [one.id, 1, 100],
    [one.id, 0, 1_000],
    [other.id, 2, 10_000],
  ].map(([keyId, day, total], i) => ({
    ...{ ...group, keyId: String(keyId), subscription: `s${i}`, total: Number(total) },
    hour: Date.UTC(2026, 2, Number(day)),
    ...{ answers: 1, input: 2, output: 3, cached: 0, reasoning: 0, estimated: 0, ...unpriced },
  }))
  const step = { journal: 'journal', revision, places: [], gaps: [], closes: false }
  await ledger.feed({ ...step, rows })
  const usage = {
    today: { answers: 2, inputTokens: 4, outputTokens: 6, totalTokens: 11 },
    month: { answers: 3, inputTokens: 6, outputTokens: 9, totalTokens: 111 },
  }
  const read = async (as: string) => (await api.ask(`GET /v1/api-keys/${one.id}`, { as })).json()
  for (const as of ['alice', 'admin', one.key]) t.strictSame((await read(as)).usage, usage)
  t.notOk('usage' in (await read(other.key)), 'a key sees only its own use')
  await api.sql`alter table tollgate_usage_hours rename to elsewhere`
  t.match(await read('alice'), { id: one.id, usage: undefined }, 'the record is read without')
})

test('optional fields appear only if they have a value', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice', { description: 'ü' })
  await api.sql`update api_keys set last_used_at = '2026-03-02T00:00:00.9Z', expires_at = null`
  t.match((await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json(), {
    description: 'ü',
    lastUsedAt: '2026-03-02T00:00:00Z',
    expiresAt: null,
    expirationDate: null,
  })
})

test('a key past its expiry is reported as expired', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice', { expiresIn: '1h' })
  api.now += 3_599_999
  t.match((await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json(), { status: 'active' })
  api.now += 1
  t.match((await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json(), { status: 'expired' })
})

test('revoked and stored-expired keys can be read', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  for (const status of ['revoked', 'expired']) {
    await api.sql`update api_keys set status = ${status}`
    t.match((await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json(), { status })
  }
})

test('refuses a request without a credential (401)', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice', { expiresIn: '1h' })
  refused(t, await api.ask(`GET /v1/api-keys/${id}`), 401, 'credential_invalid')
  api.now += 3_600_000
  refused(t, await api.ask(`GET /v1/api-keys/${id}`, { as: key }), 401, 'credential_invalid')
})

test('other users’, unknown and impossible ids get the same answer (404)', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('bob')
  const ids = [id, randomUUID(), 'x', '%00', '%F0%9F%98%80', id.slice(1), `${id}0`, "'--", '..%2f']
  const bodies = new Set<string>()
  for (const one of ids) {
    const answer = await api.ask(`GET /v1/api-keys/${one}`, { as: 'alice' })
    refused(t, answer, 404, 'not_found', one)
    bodies.add(answer.body)
  }
  t.equal(bodies.size, 1)
})

test('an internal fault reveals nothing (500)', async (t) => {
  const api = await createKeyApi(t, { around: failing('fault', 'findById') })
  refused(t, await api.ask(`GET /v1/api-keys/${randomUUID()}`, { as: 'alice' }), 500, 'internal')
})

test('reads nothing while the store is unavailable (503)', async (t) => {
  const api = await createKeyApi(t, { around: failing('outage', 'findById', 'findByHashes') })
  const route = `GET /v1/api-keys/${randomUUID()}`
  refused(t, await api.ask(route, { as: 'alice' }), 503, 'store_unavailable')
  const key = 'sk-oai-abc_def'
  refused(t, await api.ask(route, { as: key }), 503, 'store_unavailable')
})
