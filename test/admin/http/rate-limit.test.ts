import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const list = 'POST /v1/api-keys/search'

test('a caller over the limit gets 429 with Retry-After', async (t) => {
  const api = await createKeyApi(t, { rate: { limit: 3, windowMs: 60_000 } })
  const { key } = await api.createKey('alice')
  api.now += 1_500
  t.equal((await api.ask(list, { as: 'alice' })).statusCode, 200)
  t.equal((await api.ask(list, { as: 'alice' })).statusCode, 200)
  const answer = await api.ask(list, { as: 'alice' })
  refused(t, answer, 429, 'too_many_requests')
  t.equal(answer.headers['retry-after'], '59')
  t.equal((await api.ask(list, { as: key })).statusCode, 200, 'their keys have their own limit')
  t.equal((await api.ask(list, { as: 'bob' })).statusCode, 200, 'others are served')
  refused(t, await api.ask(list), 401, 'credential_invalid')
  for (let i = 0; i < 10; i += 1) t.equal((await api.ask('GET /health')).statusCode, 200)
  api.now += 58_500
  t.equal((await api.ask(list, { as: 'alice' })).statusCode, 200)
})

test('all keys of a user share one limit', async (t) => {
  const api = await createKeyApi(t, { rate: { limit: 2, windowMs: 60_000 } })
  const [one, other] = [await api.createKey('alice'), await api.createKey('alice')]
  refused(t, await api.ask(list, { as: 'alice' }), 429, 'too_many_requests')
  t.equal((await api.ask(list, { as: one.key })).statusCode, 200)
  t.equal((await api.ask(list, { as: other.key })).statusCode, 200)
  refused(t, await api.ask(list, { as: one.key }), 429, 'too_many_requests')
  const bob = await api.createKey('bob')
  t.equal((await api.ask(list, { as: bob.key })).statusCode, 200)
})

const unknownId = '00000000-0000-4000-8000-000000000000'

test('nothing that a key does keeps its owner from revoking', async (t) => {
  const api = await createKeyApi(t, { rate: { limit: 6, windowMs: 60_000 } })
  const made = []
  for (let i = 0; i < 6; i += 1) made.push(await api.createKey('alice'))
  const [leaked, other, ...rest] = made as [Made, Made, Made, Made, Made, Made]
  const flood = async (route: string, body?: object) => {
    const statuses = []
    for (let i = 0; i < 8; i += 1) {
      statuses.push((await api.ask(route, { as: leaked.key, body })).statusCode)
    }
    return statuses.at(-1)
  }
  t.equal(await flood(list), 429)
  t.equal(await flood(`DELETE /v1/api-keys/${unknownId}`), 429)
  t.equal(await flood('POST /v1/api-keys/revoke', { key: 'sk-oai-a_b' }), 429)
  t.equal(await flood('POST /v1/api-keys/bulk-revoke', { dryRun: true }), 429)
  t.equal(await flood('POST /v1/api-keys/bulk-revoke', { username: 'bob' }), 429)

  refused(t, await api.ask(list, { as: 'alice' }), 429, 'too_many_requests', 'six keys were made')
  const revoke = (route: string, as: string, body?: object) => api.ask(route, { as, body })
  const [a, b, c] = rest
  t.equal((await revoke(`DELETE /v1/api-keys/${a.id}`, 'alice')).statusCode, 200)
  t.equal((await revoke('POST /v1/api-keys/revoke', 'alice', { key: b.key })).statusCode, 200)
  t.equal((await revoke(`DELETE /v1/api-keys/${c?.id}`, other.key)).statusCode, 200)
  t.equal(
    (await revoke('POST /v1/api-keys/revoke', leaked.key, { key: ` ${leaked.key}` })).statusCode,
    200,
    'the leaked key ends itself',
  )
  t.match((await revoke('POST /v1/api-keys/bulk-revoke', 'alice')).json(), { revokedCount: 2 })
})

type Made = Awaited<ReturnType<Awaited<ReturnType<typeof createKeyApi>>['createKey']>>

test('a key over the limit still ends itself, by any endpoint', async (t) => {
  const api = await createKeyApi(t, { rate: { limit: 1, windowMs: 60_000 } })
  for (const own of [
    ({ id }: Made) => [`DELETE /v1/api-keys/${id}`],
    ({ key }: Made) => ['POST /v1/api-keys/revoke', { key }],
    () => ['POST /v1/api-keys/bulk-revoke'],
    () => ['POST /v1/api-keys/bulk-revoke', { username: 'alice' }],
  ] as ((made: Made) => [string, object?])[]) {
    api.now += 60_000
    const made = await api.createKey('alice')
    for (let i = 0; i < 3; i += 1) {
      await api.ask(`DELETE /v1/api-keys/${unknownId}`, { as: made.key })
    }
    const [route, body] = own(made)
    t.equal((await api.ask(route, { as: made.key, body })).statusCode, 200, route)
  }
})

test('requests to revoke that cannot be read count, too', async (t) => {
  for (const [route, payload] of [
    ['POST /v1/api-keys/revoke', '{}'],
    ['POST /v1/api-keys/revoke', '{"key":'],
    ['POST /v1/api-keys/bulk-revoke', '5'],
    ['POST /v1/api-keys/bulk-revoke', '{"username":5}'],
    ['POST /v1/api-keys/bulk-revoke', '{"username":"\\u0000"}'],
    ['POST /v1/api-keys/bulk-revoke', '"'],
  ] as const) {
    const api = await createKeyApi(t, { rate: { limit: 3, windowMs: 60_000 } })
    const { key: as } = await api.createKey('alice')
    const ask = async () => (await api.ask(route, { as, payload })).statusCode
    t.strictSame([await ask(), await ask(), await ask()], [400, 400, 400], payload)
    refused(t, await api.ask(route, { as, payload }), 429, 'too_many_requests', payload)
    const own = await api.ask('POST /v1/api-keys/revoke', { as, body: { key: as } })
    t.equal(own.statusCode, 200, 'the key still ends itself')
  }
})

test('revocations have a limit of their own', async (t) => {
  const api = await createKeyApi(t, { rate: { limit: 2, windowMs: 60_000 } })
  const remove = () => api.ask(`DELETE /v1/api-keys/${unknownId}`, { as: 'alice' })
  refused(t, await remove(), 404)
  refused(t, await remove(), 404)
  const answer = await remove()
  refused(t, answer, 429, 'too_many_requests')
  t.equal(answer.headers['retry-after'], '60')
  t.equal((await api.ask(list, { as: 'alice' })).statusCode, 200)
})

test('a large body is not read to see whose key it ends', async (t) => {
  const api = await createKeyApi(t, { rate: { limit: 1, windowMs: 60_000 } })
  const { key } = await api.createKey('alice')
  const revoke = (length: number) =>
    api.ask('POST /v1/api-keys/revoke', { as: key, body: { key: `${key}${' '.repeat(length)}` } })
  await api.ask(`DELETE /v1/api-keys/${unknownId}`, { as: key })
  refused(t, await revoke(16_384), 429, 'too_many_requests')
  t.equal((await revoke(1_000)).statusCode, 200)
})

test('refused credentials are counted by address, valid ones are served', async (t) => {
  const api = await createKeyApi(t, {
    addressRate: { limit: 2, windowMs: 60_000 },
    trustedProxies: ['loopback'],
  })
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
  const wrong = (address: string) => api.ask(list, { as: 'nobody', ...from(address) })
  refused(t, await wrong('192.0.2.1'), 401, 'credential_invalid')
  for (let i = 0; i < 5; i += 1) refused(t, await api.ask(list, from('192.0.2.1')), 401)
  refused(t, await wrong('192.0.2.1'), 401, 'credential_invalid')
  const answer = await wrong('192.0.2.1')
  refused(t, answer, 429, 'too_many_requests')
  t.equal(answer.headers['retry-after'], '60')
  const key = { 'x-api-key': 'not a key', ...from('192.0.2.1').headers }
  refused(t, await api.ask(list, { headers: key }), 429, 'too_many_requests')
  refused(
    t,
    await wrong('192.0.2.1, 192.0.2.2'),
    401,
    'credential_invalid',
    'the last address has its own count',
  )
  t.equal((await api.ask(list, { as: 'alice', ...from('192.0.2.1') })).statusCode, 200)

  for (const address of ['192.0.2.1:50001', '192.0.2.1:50002', '::ffff:192.0.2.1'])
    refused(t, await wrong(address), 429, 'too_many_requests', 'each port is the same client')
  refused(t, await wrong('[2001:db8:9::1]:50001'), 401, 'credential_invalid')
  refused(t, await wrong('[2001:db8:9::2]:50002'), 401, 'credential_invalid')
  refused(t, await wrong('[2001:db8:9::1]'), 429, 'too_many_requests')

  for (const address of ['2001:db8::1', '2001:db8::2']) refused(t, await wrong(address), 401)
  refused(t, await wrong('2001:db8:0:0:ffff::3'), 429, 'too_many_requests', 'one /64')
  refused(t, await wrong('2001:db8:0:1::1'), 401, 'credential_invalid')
})

test('x-forwarded-for from an untrusted address is ignored', async (t) => {
  const api = await createKeyApi(t, { addressRate: { limit: 2, windowMs: 60_000 } })
  const statuses = []
  for (let i = 0; i < 3; i += 1) {
    const headers = { 'x-forwarded-for': `192.0.2.${i}` }
    statuses.push((await api.ask(list, { as: 'nobody', headers })).statusCode)
  }
  t.strictSame(statuses, [401, 401, 429])
})
