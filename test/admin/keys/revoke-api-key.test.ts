import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { createPostgresApiKeys } from '../../../src/keys/postgres-api-keys.ts'
import { createMigratedDatabase } from '../../support/database.ts'
import { addReplica } from '../../support/followers.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { createPool } from '../../support/key-store.ts'
import { failing, refused } from '../../support/refusals.ts'

test('revoking returns the record (200)', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice', { name: 'laptop' })
  t.equal((await api.ask(`GET /v1/api-keys/${id}`, { as: key })).statusCode, 200)
  const answer = await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
  t.equal(answer.statusCode, 200)
  t.match(answer.json(), { id, name: 'laptop', username: 'alice', status: 'revoked' })
  t.strictSame(answer.json().propagation, { state: 'confirmed', replicas: 1, acknowledged: 1 })
  refused(t, await api.ask(`GET /v1/api-keys/${id}`, { as: key }), 401)
  t.match((await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json(), { status: 'revoked' })
})

test('names the replicas that have not acknowledged the revocation (200)', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  await addReplica(api.sql, 'cut off')
  const answer = await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
  t.match(answer.json(), {
    status: 'revoked',
    propagation: { state: 'pending', replicas: 2, acknowledged: 1, waitingFor: ['cut off'] },
  })
})

test('an administrator may revoke anybody’s key', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  t.equal((await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'admin' })).statusCode, 200)
})

test('a key may revoke itself', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  t.equal((await api.ask(`DELETE /v1/api-keys/${id}`, { as: key })).statusCode, 200)
  refused(t, await api.ask(`DELETE /v1/api-keys/${id}`, { as: key }), 401)
})

test('refuses a request without a credential (401)', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  refused(t, await api.ask(`DELETE /v1/api-keys/${id}`), 401, 'credential_invalid')
  t.equal((await api.keys.findById(id))?.status, 'active')
})

test('keys that are not active or not yours are not found (404)', async (t) => {
  const api = await createKeyApi(t)
  const revoked = await api.createKey('alice')
  await api.ask(`DELETE /v1/api-keys/${revoked.id}`, { as: 'alice' })
  const stored = await api.createKey('alice')
  await api.sql`update api_keys set status = 'expired' where id = ${stored.id}`
  const past = await api.createKey('alice', { expiresIn: '1m' })
  const foreign = await api.createKey('bob')
  api.now += 60_000
  const bodies = new Set<string>()
  for (const id of [revoked.id, stored.id, past.id, foreign.id, randomUUID(), 'x', '%00']) {
    const answer = await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
    refused(t, answer, 404, 'not_found', id)
    bodies.add(answer.body)
  }
  t.equal(bodies.size, 1)
  t.match((await api.ask(`GET /v1/api-keys/${past.id}`, { as: 'alice' })).json(), {
    status: 'expired',
  })
  t.equal((await api.keys.findById(foreign.id))?.status, 'active')
})

test('of concurrent revocations exactly one succeeds', async (t) => {
  const api = await createKeyApi(t)
  for (let round = 0; round < 5; round += 1) {
    const { id } = await api.createKey('alice')
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        api.ask(`DELETE /v1/api-keys/${id}`, { as: i % 2 === 0 ? 'alice' : 'admin' }),
      ),
    )
    const statuses = answers.map(({ statusCode }) => statusCode).sort()
    t.strictSame(statuses, [200, ...Array.from({ length: 19 }, () => 404)])
  }
})

test('an internal fault reveals nothing (500)', async (t) => {
  const api = await createKeyApi(t, { around: failing('fault', 'revoke') })
  refused(t, await api.ask(`DELETE /v1/api-keys/${randomUUID()}`, { as: 'alice' }), 500, 'internal')
})

test('revokes nothing while the store is unavailable (503)', async (t) => {
  const api = await createKeyApi(t, { around: failing('outage', 'revoke') })
  const answer = await api.ask(`DELETE /v1/api-keys/${randomUUID()}`, { as: 'alice' })
  refused(t, answer, 503, 'store_unavailable')
  t.match(answer.json().error.message, /may or may not be revoked\. Repeat the call/)
})

test('a server that refuses writes has revoked nothing (503)', async (t) => {
  const url = await createMigratedDatabase(t)
  const refusing = new URL(url)
  refusing.searchParams.set('options', '-c default_transaction_read_only=on')
  const { revoke, revokeAll } = createPostgresApiKeys(await createPool(t, refusing.href))
  const api = await createKeyApi(t, { url, around: (store) => ({ ...store, revoke, revokeAll }) })
  const { id } = await api.createKey('alice')
  for (const route of [`DELETE /v1/api-keys/${id}`, 'POST /v1/api-keys/bulk-revoke']) {
    const answer = await api.ask(route, { as: 'alice' })
    refused(t, answer, 503, 'store_unavailable')
    t.match(answer.json().error.message, /is read-only.* nothing was changed/)
  }
  t.equal((await api.keys.findById(id))?.status, 'active')
})

test('an open transaction blocks only the keys that it has changed', async (t) => {
  const api = await createKeyApi(t)
  const [touched, other, ...more] = await Promise.all(
    Array.from({ length: 5 }, () => api.createKey('alice')),
  )
  const remove = (key: { id: string } | undefined) =>
    api.ask(`DELETE /v1/api-keys/${key?.id}`, { as: 'alice' })
  // As in psql: a key is revoked, and the transaction stays open.
  await api.sql
    .begin(async (person) => {
      await person`update api_keys set status = 'revoked' where id = ${touched?.id}`
      const free = await remove(other)
      t.equal(free.statusCode, 200)
      t.match(free.json(), { propagation: { state: 'confirmed' } })
      refused(t, await remove(touched), 503, 'store_locked')
      const bulk = await api.ask('POST /v1/api-keys/bulk-revoke', { as: 'alice' })
      refused(t, bulk, 503, 'store_locked')
      for (const { id } of more) t.equal((await api.keys.findById(id))?.status, 'revoked')
      throw new Error('rolled back')
    })
    .catch(() => {})
  t.equal((await remove(touched)).statusCode, 200)
})
