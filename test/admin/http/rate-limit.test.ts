import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const list = 'POST /v1/api-keys/search'

test('a caller over the limit gets 429 with Retry-After', async (t) => {
  const api = await createKeyApi(t, { rate: { limit: 3, windowMs: 60_000 } })
  const { key } = await api.createKey('alice')
  api.now += 1_500
  t.equal((await api.ask(list, { as: 'alice' })).statusCode, 200)
  t.equal(
    (await api.ask(list, { as: key })).statusCode,
    200,
    'their key counts towards the same limit',
  )
  const answer = await api.ask(list, { as: 'alice' })
  refused(t, answer, 429, 'too_many_requests')
  t.equal(answer.headers['retry-after'], '59')
  refused(t, await api.ask(list, { as: key }), 429, 'too_many_requests')
  t.equal((await api.ask(list, { as: 'bob' })).statusCode, 200, 'others are served')
  refused(t, await api.ask(list), 401, 'credential_invalid')
  for (let i = 0; i < 10; i += 1) t.equal((await api.ask('GET /health')).statusCode, 200)
  api.now += 58_500
  t.equal((await api.ask(list, { as: 'alice' })).statusCode, 200)
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
