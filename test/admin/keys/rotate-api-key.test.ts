import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const second = 1_000
const hour = 3_600 * second

test('the secret changes and nothing else; without overlap the old one ends at once', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice', { labels: { team: 'a' }, description: 'd' })
  const before = (await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json()
  const answer = await api.ask(`POST /v1/api-keys/${id}/rotate`, { as: 'alice' })
  t.equal(answer.statusCode, 200, answer.body)
  t.equal(answer.headers['cache-control'], 'no-store')
  const { key: fresh, propagation, ...record } = answer.json()
  t.match(fresh, /^sk-tg-/)
  t.match(record.keyPrefix, /\.\.\.$/, 'as in the answer to a creation')
  t.match(propagation, { state: 'confirmed' })
  const { keyPrefix: _, usage: __, ...unchanged } = before
  t.match(record, unchanged)
  t.notOk('previous' in record)
  t.equal((await api.ask(`GET /v1/api-keys/${id}`, { as: key })).statusCode, 401)
  const after = await api.ask(`GET /v1/api-keys/${id}`, { as: fresh })
  t.equal(after.statusCode, 200)
  t.equal(after.json().keyPrefix, fresh.slice(0, 12))
  t.match(api.audited.at(-1), { action: 'key.rotate', outcome: 'success', target: { keyId: id } })
  t.notMatch(JSON.stringify(api.audited) + api.logged(), fresh.slice(24, 50))
})

test('both secrets work until the overlap ends, and never longer than the key', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice', { expiresIn: '10h' })
  const start = api.now
  const rotate = async (overlap: string | number) => {
    const body = { overlap }
    const answer = await api.ask(`POST /v1/api-keys/${id}/rotate`, { as: 'alice', body })
    t.equal(answer.statusCode, 200, answer.body)
    return answer.json()
  }
  const works = async (secret: string) =>
    (await api.ask('GET /v1/subscriptions', { as: secret })).statusCode === 200
  const first = await rotate('2h')
  t.match(first.previous, { endsAt: '2026-03-01T14:00:00Z', keyPrefix: key.slice(0, 12) })
  t.ok((await works(key)) && (await works(first.key)))
  api.now = start + 2 * hour - second
  t.ok(await works(key))
  api.now = start + 2 * hour
  t.notOk(await works(key))
  t.notOk('previous' in (await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json())

  const next = await rotate('7d')
  t.equal(next.previous.endsAt, next.expiresAt, 'not longer than the key')
  t.ok((await works(first.key)) && (await works(next.key)))
  const last = await rotate(60)
  t.notOk(await works(first.key), 'a secret that was replaced before ends at once')
  t.ok((await works(next.key)) && (await works(last.key)))
})

test('revoking the key ends both secrets, revoking the old secret only that one', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  const body = { overlap: '1h' }
  const works = async (secret: string) =>
    (await api.ask('GET /v1/subscriptions', { as: secret })).statusCode === 200
  const first = (await api.ask(`POST /v1/api-keys/${id}/rotate`, { as: 'alice', body })).json()
  const given = await api.ask('POST /v1/api-keys/revoke', { as: 'bob', body: { key } })
  t.match(given.json(), { id, status: 'active', propagation: { state: 'confirmed' } })
  t.notOk(await works(key))
  t.ok(await works(first.key))
  t.equal((await api.ask('POST /v1/api-keys/revoke', { as: 'bob', body: { key } })).statusCode, 404)

  const next = (await api.ask(`POST /v1/api-keys/${id}/rotate`, { as: 'admin', body })).json()
  t.ok((await works(first.key)) && (await works(next.key)))
  await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
  t.notOk(await works(first.key))
  t.notOk(await works(next.key))
  const rows = await api.sql<{ hash: string }[]>`
    select distinct key_hash as hash from tollgate_revocations where ended and ends_at is null
      and key_id = ${id}`
  t.equal(rows.length, 3, 'each secret is in the log')
  refused(t, await api.ask(`POST /v1/api-keys/${id}/rotate`, { as: 'alice' }), 404, 'not_found')
})

test('a process that does not know of a rotation yet ends only the given secret', async (t) => {
  const api = await createKeyApi(t)
  const other = await createKeyApi(t, { url: api.url })
  const { id, key } = await api.createKey('alice')
  t.equal((await other.ask('GET /v1/me', { as: key })).statusCode, 200, 'it is in the cache')
  await api.ask(`POST /v1/api-keys/${id}/rotate`, { as: 'alice', body: { overlap: '1h' } })
  const given = await other.ask('POST /v1/api-keys/revoke', { as: 'bob', body: { key } })
  t.match(given.json(), { id, status: 'active' })
  t.match(await api.keys.findById(id), { status: 'active', previous: undefined })
})

test('the old secret ends some time after the first use of the new one', async (t) => {
  const api = await createKeyApi(t)
  const now = Date.now()
  api.now = now
  const { id, key } = await api.createKey('alice')
  await api.keys.rotate(
    id,
    'alice',
    { hash: 'new', prefix: null, overlapMs: 24 * hour, endAfterFirstUseMs: hour },
    now,
  )
  const endsAt = async () => (await api.keys.findById(id))?.previous?.endsAt
  t.equal(await endsAt(), now + 24 * hour)
  await api.noteUse(key, now - 5_000)
  t.equal(await endsAt(), now + 24 * hour, 'a use of the old one changes nothing')
  t.equal((await api.keys.findById(id))?.previous?.lastUsedAt, now - 5_000)
  t.equal((await api.keys.findById(id))?.lastUsedAt, null)
  await api.noteUse('new', now - 4_000)
  t.equal(await endsAt(), now - 4_000 + hour)
  await api.noteUse('new', now + 40_000)
  t.equal(await endsAt(), now - 4_000 + hour, 'only the first use counts')
})

test('a use of the old secret that is written late is none of the new one', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  const route = `POST /v1/api-keys/${id}/rotate`
  const headers = { 'idempotency-key': 'k' }
  const body = { overlap: '24h', endOldAfterFirstUse: '1h' }
  const { previous } = (await api.ask(route, { as: 'alice', headers, body })).json()
  await api.noteUse(key, api.now)
  const record = (await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json()
  t.equal(record.previous.endsAt, previous.endsAt, 'it ends no earlier')
  t.ok(record.previous.lastUsedAt)
  t.notOk('lastUsedAt' in record)
  const again = await api.ask(route, { as: 'alice', headers, body })
  t.equal(again.statusCode, 200, 'the new secret, whose answer was lost, is replaced')
})

test('a key, another user and wrong times are refused', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  const route = `POST /v1/api-keys/${id}/rotate`
  refused(t, await api.ask(route, { as: key }), 403, 'identity_token_required')
  refused(t, await api.ask(route, { as: 'bob' }), 404, 'not_found')
  refused(t, await api.ask('POST /v1/api-keys/none/rotate', { as: 'alice' }), 404, 'not_found')
  for (const [body, message] of [
    [{ overlap: '8d' }, /^overlap must be at most 7d/],
    [{ overlap: -1 }, /^overlap must not be negative/],
    [{ overlap: '-1h' }, /^overlap must not be negative/],
    [{ overlap: '24' }, /^overlap must be like/],
    [{ overlap: true }, /^overlap must be a string or a number/],
    [{ endOldAfterFirstUse: '1h' }, /^endOldAfterFirstUse needs an overlap/],
    [{ overlap: '1h', endOldAfterFirstUse: [] }, /^endOldAfterFirstUse must be a string/],
  ] as const) {
    const answer = await api.ask(route, { as: 'alice', body })
    refused(t, answer, 400, undefined, JSON.stringify(body))
    t.match(answer.json().error.message, message)
  }
  t.equal((await api.ask('GET /v1/subscriptions', { as: key })).statusCode, 200)
})
