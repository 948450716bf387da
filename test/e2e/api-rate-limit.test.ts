import { clientAt } from '../support/client-at.ts'
import { gatewayTests } from '../support/gateway.ts'

// The defaults; the harness puts both off for tests that poll.
const test = gatewayTests({
  env: {
    API_RATE_LIMIT: '600/1m',
    API_RATE_LIMIT_ADDRESS: '1200/1m',
    // Envoy alone; the clients' own addresses are loopback's too.
    TRUSTED_PROXIES: '127.0.0.1',
  },
})

test('2,000 wrong credentials from one address earn 429', async (t, gateway) => {
  const guesser = clientAt('127.0.0.2', gateway)
  const other = clientAt('127.0.0.3', gateway)
  t.teardown(guesser.close)
  t.teardown(other.close)
  const user = gateway.newUser()
  const good = { token: `token-${user}` }
  const answers = await Promise.all(
    Array.from({ length: 2_000 }, async (_, i) => {
      const token = i % 2 === 0 ? `guess-${i}` : `sk-oai-${i}_${'x'.repeat(32)}`
      // What the client says of itself is not believed.
      const answer = await guesser.ask({ token, forwardedFor: `192.0.2.${i % 250}` })
      if (i % 200 !== 0) return answer
      t.equal((await other.ask(good)).status, 200, 'another address is served meanwhile')
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

  t.equal((await other.ask({ token: 'guess' })).status, 401, 'of which nothing was counted')
  t.equal((await guesser.ask(good)).status, 200, 'a good credential is served anywhere')
  t.equal((await guesser.ask({ path: '/health' })).status, 200)
  const { key } = await gateway.mint({ user })
  t.equal((await gateway.chat(key)).status, 200, 'inference has no part in it')
})

test('a caller has 600 requests a minute, and inference has no part in them', async (t, gateway) => {
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
