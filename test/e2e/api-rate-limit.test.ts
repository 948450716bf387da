import { clientAt } from '../support/client-at.ts'
import { gatewayTests } from '../support/gateway.ts'

// The default; for other tests, which poll, the harness disables it.
const test = gatewayTests({
  env: {
    API_RATE_LIMIT: '600/1m',
    // Only Envoy; the addresses of the clients are in 127.0.0.0/8 too.
    TRUSTED_PROXIES: '127.0.0.1',
  },
})

test('2,000 wrong credentials from one address get 429', async (t, gateway) => {
  const guesser = clientAt('127.0.0.2', gateway)
  const other = clientAt('127.0.0.3', gateway)
  t.teardown(guesser.close)
  t.teardown(other.close)
  const user = gateway.newUser()
  const good = { token: `token-${user}` }
  const answers = await Promise.all(
    Array.from({ length: 2_000 }, async (_, i) => {
      const token = i % 2 === 0 ? `guess-${i}` : `sk-oai-${i}_${'x'.repeat(32)}`
      // Envoy replaces the client's own x-forwarded-for.
      const answer = await guesser.ask({ token, forwardedFor: `192.0.2.${i % 250}` })
      if (i % 200 !== 0) return answer
      t.equal((await other.ask(good)).status, 200, 'another address is served')
      return answer
    }),
  )
  const by = Object.groupBy(answers, ({ status }) => String(status))
  t.strictSame(Object.keys(by), ['401', '429'])
  const last = by[429]?.at(-1)
  t.match(JSON.parse(last?.text ?? ''), {
    error: { type: 'rate_limit_error', code: 'too_many_requests' },
  })
  const retryAfter = Number(last?.headers['retry-after'])
  t.ok(retryAfter >= 1 && retryAfter <= 60, `retry-after: ${retryAfter}`)

  t.equal(
    (await other.ask({ token: 'guess' })).status,
    401,
    'nothing was counted for the other address',
  )
  t.equal((await guesser.ask(good)).status, 200, 'a valid credential is served from any address')
  t.equal((await guesser.ask({ path: '/health' })).status, 200)
  const { key } = await gateway.mint({ user })
  t.equal((await gateway.chat(key)).status, 200, 'inference is not limited')
})

test('limits a caller to 600 API requests a minute, but not inference', async (t, gateway) => {
  const client = clientAt('127.0.0.4', gateway)
  t.teardown(client.close)
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user })
  const ask = () => client.ask({ token: `token-${user}` })
  const answers = await Promise.all(Array.from({ length: 900 }, ask))
  t.ok(answers.filter(({ status }) => status === 200).length >= 599)
  t.equal(answers.at(-1)?.status, 429)
  t.equal((await gateway.chat(key)).status, 200)
  t.equal((await client.ask({ token: `token-${gateway.newUser()}` })).status, 200)
})

test('a flood with a leaked key keeps nobody from revoking it', async (t, gateway) => {
  const thief = clientAt('127.0.0.5', gateway)
  t.teardown(thief.close)
  const user = gateway.newUser()
  const owner = `token-${user}`
  const [leaked, second, third] = [
    await gateway.mint({ user }),
    await gateway.mint({ user }),
    await gateway.mint({ user }),
  ]
  const flood = (method: string, path: string) =>
    Promise.all(Array.from({ length: 700 }, () => thief.ask({ token: leaked.key, method, path })))
  const read = await flood('GET', `/v1/api-keys/${leaked.id}`)
  t.equal(read.at(-1)?.status, 429)
  for (const path of ['/v1/api-keys/x', '/maas-api/v1/api-keys/x']) {
    const removed = await flood('DELETE', path)
    t.equal(removed.at(-1)?.status, 429, `${path}: its own revocations are limited`)
  }
  const post = (path: string, body: object, token = owner) =>
    gateway.ask(path, token, { method: 'POST', body: JSON.stringify(body) })
  const remove = await gateway.ask(`/v1/api-keys/${second.id}`, owner, { method: 'DELETE' })
  t.equal(remove.status, 200)
  t.equal((await post('/maas-api/v1/api-keys/revoke', { key: third.key })).status, 200)
  t.equal((await post('/v1/api-keys/bulk-revoke', { dryRun: true })).status, 200)
  t.equal((await post('/v1/api-keys/revoke', { key: leaked.key }, leaked.key)).status, 200)
  t.match(JSON.parse((await post('/v1/api-keys/bulk-revoke', {})).text), { revokedCount: 0 })
})
