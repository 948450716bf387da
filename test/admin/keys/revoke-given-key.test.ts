import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { failing } from '../../support/refusals.ts'

const route = 'POST /v1/api-keys/revoke'

test('200: whoever holds a key may revoke it', async (t) => {
  const api = await createKeyApi(t)
  const { key, id } = await api.createKey('alice')
  const answer = await api.ask(route, { as: 'bob', body: { key: ` ${key}\n` } })
  t.equal(answer.statusCode, 200)
  t.match(answer.json(), {
    id,
    username: 'alice',
    status: 'revoked',
    keyPrefix: key.slice(0, 12),
    propagation: { state: 'confirmed' },
  })
  t.notOk(answer.body.includes(key))
  t.equal((await api.ask('GET /v1/models', { as: key })).statusCode, 401)
  t.match(api.audited, [
    { action: 'key.create' },
    { action: 'key.create' },
    { action: 'key.revoke', outcome: 'intent', target: { keyId: id }, actor: { user: 'bob' } },
    { action: 'key.revoke', outcome: 'success', target: { keyId: id, user: 'alice' } },
  ])
  t.notOk(JSON.stringify(api.audited).includes(key.slice(14)))
})

test('200: a key may revoke itself', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('alice')
  t.equal((await api.ask(route, { as: key, body: { key } })).statusCode, 200)
  t.equal((await api.ask(route, { as: key, body: { key } })).statusCode, 401)
})

test('404: unknown, mistyped, revoked and expired keys get the same answer', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('alice')
  const { key: short } = await api.createKey('alice', { expiresIn: '1h' })
  await api.ask(route, { as: 'alice', body: { key } })
  api.now += 2 * 3_600_000
  const bodies = new Set<string>()
  for (const given of [
    key,
    short,
    `${key}x`,
    'sk-oai-a_b',
    'hello',
    `sk-tg-${'a'.repeat(5_000)}`,
  ]) {
    const answer = await api.ask(route, { as: 'bob', body: { key: given } })
    t.equal(answer.statusCode, 404, given.slice(0, 20))
    bodies.add(answer.body)
  }
  t.equal(bodies.size, 1)
})

test('400: the answer and the log do not repeat the key', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('alice')
  for (const body of [{}, { key: '' }, { key: [key] }, { key: { key } }, [key], key]) {
    const answer = await api.ask(route, { as: 'bob', body })
    t.equal(answer.statusCode, 400)
    t.notOk(answer.body.includes(key.slice(14)))
  }
  const broken = await api.ask(route, { as: 'bob', payload: `{"key":"${key}"` })
  t.equal(broken.statusCode, 400)
  t.notOk(`${broken.body}${api.logged()}`.includes(key.slice(14)))
})

test('401: refuses a request without a credential', async (t) => {
  const api = await createKeyApi(t)
  t.equal((await api.ask(route, { body: { key: 'sk-tg-a_b' } })).statusCode, 401)
})

test('500 and 503: the log does not contain the body', async (t) => {
  for (const [kind, status] of [
    ['fault', 500],
    ['outage', 503],
  ] as const) {
    const api = await createKeyApi(t, { around: failing(kind, 'revoke') })
    const { key } = await api.createKey('alice')
    const answer = await api.ask(route, { as: 'bob', body: { key } })
    t.equal(answer.statusCode, status)
    t.match(api.logged(), /"level":50/)
    t.notOk(api.logged().includes(key.slice(14)))
    t.equal(
      (await api.ask('GET /v1/models', { as: key })).statusCode === 401,
      false,
      'the key is still valid',
    )
  }
})
