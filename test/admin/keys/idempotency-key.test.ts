import { hash, randomUUID } from 'node:crypto'
import { test } from 'tap'
import type { ApiKeyTable } from '../../../src/keys/store.ts'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const second = 1_000
const day = 86_400 * second
const create = 'POST /v1/api-keys'

function sender(api: KeyApi, route: string, as = 'alice') {
  return (key: string, body?: object) =>
    api.ask(route, { as, body, headers: { 'idempotency-key': key } })
}

async function works(api: KeyApi, key: string): Promise<boolean> {
  return (await api.ask('GET /v1/subscriptions', { as: key })).statusCode === 200
}

async function countKeys(api: KeyApi): Promise<number> {
  return (await api.sql`select from api_keys`).length
}

test('a repeated creation replaces the unused secret on the same id', async (t) => {
  const api = await createKeyApi(t)
  const send = sender(api, create)
  const body = { name: 'one', labels: { team: 'a' }, expiresIn: '10d' }
  const first = (await send('k', body)).json()
  api.now += second
  const again = await send('k', body)
  t.equal(again.statusCode, 201, again.body)
  const { key, keyPrefix, propagation, ...record } = again.json()
  const { key: lost, keyPrefix: _, ...before } = first
  t.strictSame(record, before)
  t.match(propagation, { state: 'confirmed' })
  t.not(key, lost)
  t.equal(keyPrefix.slice(0, 12), key.slice(0, 12))
  t.notOk(await works(api, lost), 'the lost secret has ended')
  t.equal(await countKeys(api), 1)
  t.match(api.audited.at(-1), {
    action: 'key.create',
    outcome: 'success',
    target: { keyId: record.id },
  })
  const [row] = await api.sql`select * from tollgate_idempotency`
  const secrets = [lost, key].map((each: string) => each.slice(each.indexOf('_')))
  for (const secret of secrets) t.notMatch(JSON.stringify(row), secret, 'no secret is stored')

  const last = (await send('k', body)).json()
  t.notOk(await works(api, key))
  t.ok(await works(api, last.key), 'as often as it is repeated')
})

test('a secret in use is not replaced, however soon', async (t) => {
  const api = await createKeyApi(t)
  // Another process, which shares nothing but the database, and notes uses late.
  const other = await createKeyApi(t, { url: api.url })
  other.now = api.now
  const send = sender(api, create)
  const { id, key } = (await send('k', { name: 'one' })).json()
  t.ok(await works(other, key))
  const again = await send('k', { name: 'one' })
  t.equal(again.statusCode, 409)
  t.match(again.json(), { error: { code: 'idempotency_done' }, record: { id, lastUsedAt: /^20/ } })
  t.ok(await works(api, key))
  t.ok(await works(other, key))

  const rotate = sender(api, `POST /v1/api-keys/${id}/rotate`)
  const body = { overlap: '2h', endOldAfterFirstUse: '1h' }
  const rotated = (await rotate('r', body)).json()
  t.equal((await rotate('r', body)).statusCode, 200, 'not used yet')
  const last = (await rotate('r', body)).json()
  t.notOk(await works(other, rotated.key))
  await api.sql`update api_keys set previous_ends_at = now() + interval '2 hours'`
  t.ok(await works(other, last.key))
  t.equal((await rotate('r', body)).statusCode, 409)
  t.ok(await works(other, last.key))
  const [row] = await api.sql<{ near: boolean }[]>`
    select previous_ends_at <= now() + interval '1 hour' as near from api_keys`
  t.ok(row?.near, 'the first use has shortened the overlap')
})

test('a use and a repetition at once: the secret works, or it never did', async (t) => {
  const api = await createKeyApi(t)
  const [one, two] = [
    await createKeyApi(t, { url: api.url }),
    await createKeyApi(t, { url: api.url }),
  ]
  one.now = two.now = api.now
  const send = sender(api, create)
  const seen = { kept: 0, replaced: 0 }
  for (let round = 0; round < 40; round += 1) {
    const id = `k${round}`
    const { key } = (await send(id, { name: id })).json()
    const [used, again, usedToo] = await Promise.all([
      works(one, key),
      send(id, { name: id }),
      works(two, key),
    ])
    t.equal(again.statusCode, used || usedToo ? 409 : 201, `${used} ${usedToo} ${again.body}`)
    const current = again.statusCode === 201 ? again.json().key : key
    for (const process of [api, one, two]) t.ok(await works(process, current))
    seen[again.statusCode === 201 ? 'replaced' : 'kept'] += 1
  }
  t.comment(JSON.stringify(seen))
})

test('an open transaction blocks only the unused key whose row it has changed', async (t) => {
  const api = await createKeyApi(t)
  const send = sender(api, create)
  const [locked, other] = [
    (await send('a', { name: 'a' })).json(),
    (await send('b', { name: 'b' })).json(),
  ]
  const use = ({ key }: { key: string }) => api.ask('GET /v1/subscriptions', { as: key })
  await api.sql
    .begin(async (person) => {
      await person`update api_keys set name = 'c' where id = ${locked.id}`
      const [blocked, free] = await Promise.all([use(locked), use(other)])
      t.equal(free.statusCode, 200)
      refused(t, blocked, 503, 'store_locked')
      const late = use(locked)
      await person`update api_keys set name = 'd' where id = ${locked.id}`
      setTimeout(() => void person`commit`.run(), 300)
      t.equal((await late).statusCode, 200, 'a lock that ends soon refuses nobody')
    })
    .catch(() => {})
  t.ok((await api.keys.findById(locked.id))?.lastUsedAt, 'the first use is recorded')
})

test('after the secret was used, the record is the answer', async (t) => {
  const api = await createKeyApi(t)
  const send = sender(api, create)
  const { id, key } = (await send('k', { name: 'one' })).json()
  await api.noteUse(key, api.now)
  const again = await send('k', { name: 'one' })
  t.equal(again.statusCode, 409)
  t.match(again.json(), {
    error: { code: 'idempotency_done', type: 'invalid_request_error' },
    record: { id, name: 'one', status: 'active', lastUsedAt: /^20/ },
  })
  t.notMatch(again.body, key.slice(20))
  t.ok(await works(api, key))
  t.match(api.audited.at(-1), { action: 'key.create', outcome: 'refused' })
  await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
  t.match((await send('k', { name: 'one' })).json(), { record: { id, status: 'revoked' } })
  await api.sql`delete from api_keys where id = ${id}`
  refused(t, await send('k', { name: 'one' }), 409, 'idempotency_done')
})

test('a key stands for one caller, one endpoint and one body, for a day', async (t) => {
  const api = await createKeyApi(t)
  const alice = sender(api, create)
  const { id } = (await alice('k', { name: 'one' })).json()
  refused(t, await alice('k', { name: 'two' }), 422, 'idempotency_mismatch')
  t.not((await sender(api, create, 'bob')('k', { name: 'one' })).json().id, id)
  t.equal((await sender(api, `POST /v1/api-keys/${id}/rotate`)('k')).statusCode, 200)
  api.now += day - 1
  t.equal((await alice('k', { name: 'one' })).statusCode, 409, 'rotated since')
  api.now += 1
  const next = await alice('k', { name: 'two' })
  t.equal(next.statusCode, 201, next.body)
  t.not(next.json().id, id)
  for (const wrong of ['', 'a b', 'ü', 'x'.repeat(256)]) {
    const answer = await alice(wrong, { name: 'one' })
    refused(t, answer, 400, 'invalid_request')
    t.match(answer.json().error.message, /^Idempotency-Key must be/)
  }
})

test('a refused request is not remembered', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  const rotate = sender(api, `POST /v1/api-keys/${id}/rotate`, 'bob')
  refused(t, await rotate('k', { overlap: '1h' }), 404, 'not_found')
  refused(t, await rotate('k', { overlap: '2h' }), 404, 'not_found')
  refused(t, await sender(api, create)('k', { name: '' }), 400)
  t.equal((await api.sql`select from tollgate_idempotency`).length, 0)
})

test('a repeated rotation keeps the overlap of the old secret', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  const send = sender(api, `POST /v1/api-keys/${id}/rotate`)
  const body = { overlap: '2h' }
  const first = (await send('k', body)).json()
  api.now += 60 * second
  const again = (await send('k', body)).json()
  t.strictSame(again.previous, first.previous, 'it does not begin again')
  t.ok(await works(api, key))
  t.notOk(await works(api, first.key))
  t.ok(await works(api, again.key))
  const ended = await api.sql<{ hash: string; at: Date | null }[]>`
    select key_hash as hash, ends_at as at from tollgate_revocations where ended order by sequence`
  t.equal(ended.filter(({ at }) => at === null).length, 1, 'the log says so of the lost one alone')

  t.equal((await send('other', body)).statusCode, 200)
  const late = await send('k', body)
  t.equal(late.statusCode, 409, 'rotated again since')
  t.match(late.json(), { record: { id } })
  t.match((await sender(api, `POST /v1/api-keys/${id}/rotate`, 'admin')('k', body)).json(), { id })
})

test('an administrator who is none any more gets nothing', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  const send = sender(api, `POST /v1/api-keys/${id}/rotate`, 'admin')
  t.equal((await send('k')).statusCode, 200)
  const scope = JSON.stringify(['bob', 'POST', `/v1/api-keys/${id}/rotate`, 'k'])
  await api.sql`update tollgate_idempotency set scope = ${hash('sha256', scope)}`
  refused(t, await sender(api, `POST /v1/api-keys/${id}/rotate`, 'bob')('k'), 404, 'not_found')
  const [row] = await api.sql<
    { made: string | null }[]
  >`select key_id as made from tollgate_idempotency`
  t.equal(row?.made, id, 'it was a repetition')
})

test('of concurrent requests one is done, and the others are told so', async (t) => {
  const api = await createKeyApi(t)
  const send = sender(api, create)
  for (let round = 0; round < 5; round += 1) {
    const key = randomUUID()
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => send(key, { name: `r${round}` })),
    )
    const made = answers.filter(({ statusCode }) => statusCode === 201)
    t.ok(made.length > 0)
    for (const answer of answers) {
      if (answer.statusCode === 201) continue
      refused(t, answer, 409, 'idempotency_busy')
      t.match(answer.headers['retry-after'], /^\d+$/)
    }
    t.equal(new Set(made.map((answer) => answer.json().id)).size, 1)
  }
  t.equal(await countKeys(api), 5)
})

test('a try whose process is lost is taken over, and then does nothing', async (t) => {
  const arrived = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const stalls: Partial<Record<'insert' | 'rotate', boolean>> = { insert: true }
  const stall =
    <Args extends unknown[], R>(name: 'insert' | 'rotate', act: (...args: Args) => Promise<R>) =>
    async (...args: Args) => {
      if (stalls[name]) {
        stalls[name] = false
        arrived.resolve()
        await go.promise
      }
      return await act(...args)
    }
  const around = (store: ApiKeyTable): ApiKeyTable => ({
    ...store,
    insert: stall('insert', store.insert),
    rotate: stall('rotate', store.rotate),
  })
  const api = await createKeyApi(t, { around })
  const send = sender(api, create)
  const stalled = send('k', { name: 'one' })
  await arrived.promise
  refused(t, await send('k', { name: 'one' }), 409, 'idempotency_busy')
  api.now += 10 * second
  const { key, id } = (await send('k', { name: 'one' })).json()
  go.resolve()
  refused(t, await stalled, 409, 'idempotency_busy')
  t.equal(await countKeys(api), 1)

  // Another process, after a restart.
  const other = await createKeyApi(t, { url: api.url })
  other.now = api.now
  const again = (await sender(other, create)('k', { name: 'one' })).json()
  t.equal(again.id, id)
  t.notOk(await works(api, key))
  t.ok(await works(other, again.key))
})

test('an outage in the middle can be repeated', async (t) => {
  let fail = true
  const around = (store: ApiKeyTable): ApiKeyTable => ({
    ...store,
    async insert(record, attempt) {
      await store.insert(record, attempt)
      if (fail) throw new Error('the answer of the database is lost')
    },
  })
  const api = await createKeyApi(t, { around })
  const send = sender(api, create)
  refused(t, await send('k', { name: 'one' }), 500)
  fail = false
  const again = await send('k', { name: 'one' })
  t.equal(again.statusCode, 201, again.body)
  t.ok(await works(api, again.json().key))
  t.equal(await countKeys(api), 1)
})

test('rows are deleted after a day', async (t) => {
  const api = await createKeyApi(t)
  await sender(api, create)('k', { name: 'one' })
  const count = async () => (await api.sql`select from tollgate_idempotency`).length
  await api.idempotency.purge(api.now + day - 1)
  t.equal(await count(), 1)
  await api.idempotency.purge(api.now + day)
  t.equal(await count(), 0)
})

test('a process whose clock is wrong creates no second key', async (t) => {
  const api = await createKeyApi(t)
  const ahead = await createKeyApi(t, { url: api.url })
  api.now = Date.now()
  ahead.now = api.now + 60 * day
  const { id } = (await sender(api, create)('k', { name: 'one' })).json()
  const again = await sender(ahead, create)('k', { name: 'one' })
  t.equal(again.statusCode, 201, again.body)
  t.equal(again.json().id, id)
  await ahead.idempotency.purge(ahead.now)
  t.equal((await sender(api, create)('k', { name: 'one' })).json().id, id)
  t.equal(await countKeys(api), 1)

  const attempt = { scope: 's', id: randomUUID() }
  t.match(await ahead.idempotency.claim(attempt, 'r', ahead.now), { state: 'mine' })
  const next = { scope: 's', id: randomUUID() }
  t.match(await api.idempotency.claim(next, 'r', api.now + 1_000), { state: 'busy' })
  await api.sql`update tollgate_idempotency set attempted_at = attempted_at - interval '10 seconds'`
  t.match(
    await api.idempotency.claim(next, 'r', api.now + 1_000),
    { state: 'mine' },
    'after ten seconds',
  )
})
