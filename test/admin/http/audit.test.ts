import { test } from 'tap'
import { ServiceError } from '../../../src/formats/errors.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const headers = {
  'x-request-id': 'request-1',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00',
}
const traceId = '0af7651916cd43dd8448eb211c80319c'

test('the trail records a key being created, read and revoked', async (t) => {
  const api = await createKeyApi(t)
  const body = { name: 'a', subscription: 'basic' }
  const made = (await api.ask('POST /v1/api-keys', { as: 'alice', body, headers })).json()
  const about = {
    kind: 'audit',
    time: '2026-03-01T12:00:00.000Z',
    actor: { user: 'alice', source: 'file' },
    target: { keyId: made.id, user: 'alice', subscription: 'basic' },
    request_id: 'request-1',
    trace_id: traceId,
    address: '127.0.0.1',
    replica: 'one',
  }
  t.match(api.audited.splice(0), [
    { ...about, action: 'key.create', outcome: 'intent', status: null },
    { ...about, action: 'key.create', outcome: 'success', status: 201 },
  ])
  await api.ask(`GET /v1/api-keys/${made.id}`, { as: 'alice' })
  await api.ask('POST /v1/api-keys/search', { as: 'alice', body: {} })
  t.strictSame(api.audited, [], 'reading your own key is not recorded')

  await api.ask(`GET /v1/api-keys/${made.id}`, { as: 'admin' })
  await api.ask(`GET /v1/api-keys/${made.id}`, { as: 'bob' })
  const read = { action: 'key.read', target: about.target }
  t.match(api.audited.splice(0), [
    { ...read, outcome: 'success', status: 200, actor: { user: 'admin' } },
    { ...read, outcome: 'refused', status: 404, actor: { user: 'bob' } },
  ])

  await api.ask('POST /v1/api-keys/search', { as: 'admin', body: {} })
  const filters = { username: 'alice' }
  await api.ask('POST /v1/api-keys/search', { as: 'admin', body: { filters } })
  await api.ask('POST /v1/api-keys/search', { as: 'bob', body: { filters } })
  t.match(api.audited.splice(0), [
    { action: 'key.search', outcome: 'success', count: 1, actor: { user: 'admin' }, target: {} },
    { action: 'key.search', outcome: 'success', count: 1, target: { user: 'alice' } },
    { action: 'key.search', outcome: 'refused', status: 403, actor: { user: 'bob' } },
  ])

  await api.ask(`DELETE /v1/api-keys/${made.id}`, { as: 'bob' })
  await api.ask(`DELETE /v1/api-keys/${made.id}`, { as: 'alice' })
  const revoke = { action: 'key.revoke', target: { keyId: made.id } }
  t.match(api.audited.splice(0), [
    { ...revoke, outcome: 'intent', actor: { user: 'bob' } },
    { ...revoke, outcome: 'refused', status: 404, actor: { user: 'bob' } },
    { ...revoke, outcome: 'intent', actor: { user: 'alice' } },
    { ...revoke, outcome: 'success', status: 200, target: { user: 'alice' } },
  ])

  await api.createKey('alice')
  api.audited.length = 0
  await api.ask('POST /v1/api-keys/bulk-revoke', { as: 'bob', body: { username: 'alice' } })
  await api.ask('POST /v1/api-keys/bulk-revoke', { as: 'admin', body: { username: 'alice' } })
  await api.ask('POST /internal/v1/api-keys/cleanup')
  t.match(api.audited, [
    { action: 'key.bulk_revoke', outcome: 'refused', status: 403, target: { user: 'alice' } },
    { action: 'key.bulk_revoke', outcome: 'intent', target: { user: 'alice' } },
    { action: 'key.bulk_revoke', outcome: 'success', count: 1, target: { user: 'alice' } },
    { action: 'key.cleanup', outcome: 'intent', actor: { user: '', source: 'internal' } },
    { action: 'key.cleanup', outcome: 'success', count: 0 },
  ])
})

test('a long name in a request does not become a long line', async (t) => {
  const api = await createKeyApi(t)
  const long = 'x'.repeat(1_000_000)
  for (const [path, body] of [
    ['bulk-revoke', { username: long }],
    ['bulk-revoke', { subscription: long }],
    ['search', { filters: { username: long } }],
    ['search', { filters: { subscription: long } }],
  ] as const)
    refused(t, await api.ask(`POST /v1/api-keys/${path}`, { as: 'bob', body }), 400)
  t.ok(JSON.stringify(api.audited).length < 2_000)
})

test('a refused attempt is recorded, a request without a credential is not', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('alice')
  api.audited.length = 0
  await api.ask('POST /v1/api-keys', { body: { name: 'a' } })
  await api.ask('POST /v1/api-keys', { as: 'nobody-at-all', body: { name: 'a' } })
  t.strictSame(api.audited, [])
  await api.ask('POST /v1/api-keys', { as: key, body: { name: 'a' } })
  await api.ask('POST /v1/api-keys', { as: 'alice', payload: '{"name":' })
  await api.ask('POST /v1/api-keys', { as: 'alice', body: { name: 'a', subscription: 'b-only' } })
  t.match(api.audited, [
    { action: 'key.create', outcome: 'refused', status: 403, actor: { source: 'key' } },
    { action: 'key.create', outcome: 'refused', status: 400 },
    { action: 'key.create', outcome: 'refused', status: 403 },
  ])
})

test('an action fails if its required line cannot be written', async (t) => {
  const api = await createKeyApi(t, { auditRequired: true })
  const made = await api.createKey('alice')
  api.auditWorks = false
  const answers = [
    await api.ask('POST /v1/api-keys', { as: 'alice', body: { name: 'b' } }),
    await api.ask(`DELETE /v1/api-keys/${made.id}`, { as: 'alice' }),
    await api.ask('POST /v1/api-keys/bulk-revoke', { as: 'alice' }),
    await api.ask('POST /internal/v1/api-keys/cleanup'),
    await api.ask(`GET /v1/api-keys/${made.id}`, { as: 'admin' }),
    await api.ask('POST /v1/api-keys/search', { as: 'admin', body: {} }),
  ]
  for (const answer of answers) {
    t.equal(answer.statusCode, 503)
    t.match(answer.json(), { error: { code: 'audit_unavailable' } })
    t.equal(answer.headers['retry-after'], '2')
  }
  api.auditWorks = true
  const { data } = (await api.ask('POST /v1/api-keys/search', { as: 'alice', body: {} })).json()
  t.match(data, [{ id: made.id, status: 'active' }])
  t.equal(data.length, 1)
})

test('an action succeeds if a line that is not required cannot be written', async (t) => {
  const api = await createKeyApi(t)
  api.auditWorks = false
  const made = await api.createKey('alice')
  t.equal((await api.ask(`GET /v1/api-keys/${made.id}`, { as: 'admin' })).statusCode, 200)
  t.equal((await api.ask(`DELETE /v1/api-keys/${made.id}`, { as: 'alice' })).statusCode, 200)
  t.strictSame(api.audited, [])
})

test('an outage in the middle of an insert has an unknown outcome', async (t) => {
  const api = await createKeyApi(t, {
    around: (table) => ({
      ...table,
      insert: async () => {
        throw new ServiceError('store_unavailable', { cause: new Error('gone') })
      },
      revokeAll: async () => {
        throw new ServiceError('store_locked')
      },
    }),
  })
  await api.ask('POST /v1/api-keys', { as: 'alice', body: { name: 'a' } })
  await api.ask('POST /v1/api-keys/bulk-revoke', { as: 'alice' })
  t.match(api.audited, [
    { outcome: 'intent' },
    { outcome: 'unknown', status: 503 },
    { outcome: 'intent' },
    { outcome: 'failed', status: 503 },
  ])
})

test('the trail contains no key and no token, wherever a caller puts one', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('alice')
  const mistyped = `${key.slice(0, -1)}x`
  const token = `ey${'J'.repeat(20)}.${'p'.repeat(20)}.${'s'.repeat(20)}`
  for (const secret of [key, mistyped, token]) {
    const asked = { as: 'admin', headers: { 'x-request-id': secret } }
    await api.ask(`DELETE /v1/api-keys/${secret}`, asked)
    await api.ask(`GET /v1/api-keys/${secret}`, asked)
    const body = { username: secret }
    await api.ask('POST /v1/api-keys/bulk-revoke', { ...asked, body })
    await api.ask('POST /v1/api-keys/search', { ...asked, body: { filters: body } })
    await api.ask('POST /v1/api-keys', { ...asked, body: { name: secret, subscription: secret } })
  }
  const text = JSON.stringify(api.audited) + api.logged()
  t.ok(api.audited.length > 10)
  for (const secret of [key, mistyped, token]) t.notOk(text.includes(secret), secret)
})
