import { type Test, test } from 'tap'
import { createReview } from '../../../src/identity/kubernetes/review.ts'
import { createTokenReview } from '../../../src/identity/kubernetes/token-review.ts'
import type { ClientOptions } from '../../../src/kubernetes/client.ts'
import { poll } from '../../support/poll.ts'
import { startReviewServer } from '../../support/review-server.ts'

const audiences = ['https://kubernetes.default.svc', 'maas-default-gateway-sa']

async function createWorld(t: Test, options: ClientOptions = {}) {
  const server = await startReviewServer(t)
  const told: string[] = []
  const refusals: string[] = []
  let passed = 0
  const tokens = createTokenReview({
    review: createReview({ server: server.url, tokenFile: server.tokenFile }, options),
    audiences,
    graceMs: 300_000,
    onUnavailable: (problem) => told.push(problem ?? 'back'),
    onRefused: (reason) => refusals.push(reason),
    monotonic: () => passed,
  })
  server.tokens.set('ada', { username: 'ada', groups: ['team-a', 'a,b'] })
  return {
    server,
    tokens,
    told,
    refusals,
    pass(milliseconds: number) {
      passed += milliseconds
    },
    /** The user, null for nobody, or the code of the failure. */
    async ask(token: string, network = '192.0.2.1'): Promise<string | null> {
      try {
        return (await tokens.verify(token, 0, () => network))?.user ?? null
      } catch (error) {
        return (error as { code: string }).code
      }
    },
  }
}

test('a token of the cluster identifies a caller', async (t) => {
  const { server, tokens, ask, refusals } = await createWorld(t)
  t.strictSame(await tokens.verify('ada', 0), {
    by: 'token',
    proof: { by: 'cluster' },
    user: 'ada',
    groups: ['team-a', 'a,b'],
  })
  t.strictSame(server.asked, [{ token: 'ada', audiences }])
  server.tokens.set('sa', {
    username: 'system:serviceaccount:a:b',
    audiences: ['maas-default-gateway-sa', 'x'],
  })
  t.equal(await ask('sa'), 'system:serviceaccount:a:b')
  server.tokens.set('else', { username: 'eve', audiences: ['vault'] })
  t.equal(await ask('else'), null, 'for another audience')
  t.equal(await ask('invented'), null)
  t.strictSame(refusals, ['is not known to the cluster', 'is not known to the cluster'])
})

test('only a complete confirmation is accepted', async (t) => {
  const { server, ask } = await createWorld(t)
  const user = { username: 'ada', groups: ['a'] }
  const good = { authenticated: true, user, audiences: [audiences[0]] }
  let count = 0
  for (const [title, status, expected] of [
    ['whole', good, 'ada'],
    ['without groups', { ...good, user: { username: 'ada' } }, 'ada'],
    ['not authenticated', { ...good, authenticated: false }, null],
    ['authenticated is a string', { ...good, authenticated: 'true' }, null],
    ['a server that does not know audiences', { authenticated: true, user }, null],
    ['no audience', { ...good, audiences: [] }, null],
    ['another audience', { ...good, audiences: ['x'] }, null],
    ['audiences is a string', { ...good, audiences: audiences[0] }, null],
    ['no user', { authenticated: true, audiences }, null],
    ['no name', { ...good, user: { username: '' } }, null],
    ['groups is a string', { ...good, user: { ...user, groups: 'a' } }, null],
    ['a name with NUL', { ...good, user: { ...user, username: 'a\0b' } }, null],
    ['a group with half a character', { ...good, user: { ...user, groups: ['\ud800'] } }, null],
    ['a group is a list', { ...good, user: { ...user, groups: [['a']] } }, null],
    ['an error', { error: 'x' }, null],
  ] as const) {
    server.answer = (_request, response) => response.writeHead(201).end(JSON.stringify({ status }))
    count += 1
    t.equal(await ask(`token-${count}`), expected, title)
  }
})

test('verdicts are cached, a yes for a minute and a no for ten seconds', async (t) => {
  const { server, tokens, ask, pass } = await createWorld(t)
  t.equal(await ask('ada'), 'ada')
  pass(59_999)
  t.match(tokens.verify('ada', 0), { user: 'ada' }, 'from the cache')
  server.tokens.delete('ada')
  t.equal(await ask('ada'), 'ada')
  pass(1)
  t.equal(await ask('ada'), null, 'after a minute')
  server.tokens.set('ada', { username: 'ada' })
  pass(9_999)
  t.equal(tokens.verify('ada', 0), null)
  pass(1)
  t.equal(await ask('ada'), 'ada')
  t.equal(server.asked.length, 3)
})

test('tokens with the same groups share them in the cache', async (t) => {
  const { server, tokens } = await createWorld(t)
  server.tokens.set('again', { username: 'ada', groups: ['team-a', 'a,b'] })
  const [one, other] = [await tokens.verify('ada', 0), await tokens.verify('again', 0)]
  t.equal(other?.groups, one?.groups, 'one list for both')
})

test('concurrent reviews of one token share a call, those of two tokens do not', async (t) => {
  const { server, ask } = await createWorld(t)
  server.tokens.set('bob', { username: 'bob' })
  const names = ['ada', 'bob', 'ada', 'eve', 'bob', 'ada']
  t.strictSame(await Promise.all(names.map((name) => ask(name))), [
    'ada',
    'bob',
    'ada',
    null,
    'bob',
    'ada',
  ])
  t.equal(server.asked.length, 3)
})

test('without the API server only cached tokens are accepted', async (t) => {
  const { server, tokens, ask, pass, told } = await createWorld(t, { timeoutMs: 200 })
  const failures: readonly (readonly [string, typeof server.answer, RegExp])[] = [
    [
      'forbidden',
      (_request, response) => response.writeHead(403).end('{}'),
      /our role may not create tokenreviews/,
    ],
    [
      'unauthorized',
      (_request, response) => response.writeHead(401).end('{}'),
      /does not believe our own token/,
    ],
    ['too many', (_request, response) => response.writeHead(429).end('{}'), /429/],
    ['an error', (_request, response) => response.writeHead(500).end('{}'), /500/],
    ['HTML', (_request, response) => response.writeHead(200).end('<html>'), /not an object/],
    [
      'no status',
      (_request, response) => response.writeHead(201).end('{}'),
      /not return a TokenReview/,
    ],
    ['a redirect', (_request, response) => response.writeHead(302, { location: '/' }).end(), /302/],
    ['silence', () => {}, /abort|timeout/i],
    ['hanging up', (request) => request.destroy(), /hang up|ECONNRESET/],
  ]
  for (const [title, answer, problem] of failures) {
    server.answer = undefined
    pass(60_000)
    t.equal(await ask('ada'), 'ada', title)
    t.notOk(tokens.isUnavailable)
    server.answer = answer
    pass(60_000)
    t.equal(await ask('ada'), 'ada', `${title}: the cached verdict is still used`)
    t.match(told.at(-1), problem, title)
    t.ok(tokens.isUnavailable, title)
    t.equal(await ask('bob'), 'identity_unavailable', title)
    pass(300_000)
    t.equal(await ask('ada'), 'identity_unavailable', `${title}: the cached verdict has expired`)
    pass(60_000)
    t.notOk(tokens.isUnavailable, `${title}: nothing has called it for a minute`)
  }
})

test('an API server that does not respond is waited for only once', async (t) => {
  const { server, ask, pass } = await createWorld(t, { timeoutMs: 1_000 })
  const names = Array.from({ length: 20 }, (_, i) => `user-${i}`)
  for (const username of names) {
    server.tokens.set(username, { username })
    await ask(username)
  }
  pass(60_000)
  server.answer = () => {}
  t.equal(await ask('user-0'), 'user-0')
  const since = performance.now()
  t.strictSame(await Promise.all(names.map((name) => ask(name))), names, 'by cached verdicts')
  t.ok(performance.now() - since < 900, `after ${performance.now() - since} ms`)
})

test('in an outage an API server that responds decides', async (t) => {
  const { server, tokens, ask, pass } = await createWorld(t)
  t.equal(await ask('ada'), 'ada')
  pass(60_000)
  server.answer = (request) => request.destroy()
  t.equal(await ask('eve'), 'identity_unavailable')
  t.ok(tokens.isUnavailable)
  server.answer = undefined
  server.tokens.delete('ada')
  t.equal(await ask('ada'), null, 'not by its cached verdict')
})

test('a token that the cluster has refused is not accepted in an outage', async (t) => {
  const { server, ask, pass } = await createWorld(t)
  t.equal(await ask('ada'), 'ada')
  server.tokens.delete('ada')
  pass(60_000)
  t.equal(await ask('ada'), null)
  server.answer = (request) => request.destroy()
  pass(10_000)
  t.equal(await ask('ada'), 'identity_unavailable')
})

test('a flood of invented tokens leaves room for others', async (t) => {
  const { server, ask } = await createWorld(t)
  let [open, most] = [0, 0]
  const waiting: (() => void)[] = []
  server.answer = (_request, response) => {
    open += 1
    most = Math.max(most, open)
    waiting.push(() => {
      open -= 1
      response.writeHead(201).end(JSON.stringify({ status: { authenticated: false } }))
    })
  }
  const flood = Array.from({ length: 10_000 }, (_, i) => ask(`invented-${i}`, '203.0.113.9'))
  await poll(() => open === 16, 'as many concurrent calls as allowed')
  const honest = ask('ada')
  server.answer = undefined
  for (const resume of waiting.splice(0)) resume()
  t.equal(await honest, 'ada')
  const place = server.asked.findIndex(({ token }) => token === 'ada')
  t.ok(place >= 0 && place < 32, `asked as number ${place}, not behind the flood`)
  const answers = await Promise.all(flood)
  t.equal(most, 16)
  const refused = answers.filter((answer) => answer === 'identity_unavailable').length
  t.ok(server.asked.length <= 1_016, `${server.asked.length} calls, ${refused} not asked about`)
  t.comment(`10,000 invented tokens: ${server.asked.length} calls`)
})

test('several failures in a row pause the calls of one network', async (t) => {
  const { server, ask, pass } = await createWorld(t)
  server.tokens.set('bob', { username: 'bob' })
  let calls = 0
  /** Answers the next `count` reviews with 429, and the others as usual. */
  const refuseNext = (count: number) => {
    calls = 0
    server.answer = (_request, response) => {
      calls += 1
      if (calls === count) server.answer = undefined
      response.writeHead(429).end('{}')
    }
  }
  const [honest, hostile] = ['192.0.2.1', '203.0.113.9']
  refuseNext(1)
  t.equal(await ask('ada', honest), 'identity_unavailable', 'a 429 is not repeated')
  t.equal(await ask('ada', honest), 'ada', 'and denies no other token')

  for (const round of [1, 2]) {
    refuseNext(2)
    t.equal(await ask(`x-${round}`, hostile), 'identity_unavailable')
    t.equal(await ask(`y-${round}`, hostile), 'identity_unavailable')
    t.equal(await ask(`z-${round}`, hostile), null, 'a response ends the row')
  }

  refuseNext(3)
  for (const token of ['a', 'b', 'c', 'd']) {
    t.equal(await ask(token, hostile), 'identity_unavailable')
  }
  t.equal(calls, 3, 'the fourth is not asked about')
  t.equal(await ask('bob', honest), 'bob', 'another network is not affected')
  pass(999)
  t.equal(await ask('d', hostile), 'identity_unavailable')
  pass(1)
  refuseNext(1)
  t.equal(await ask('d', hostile), 'identity_unavailable')
  t.equal(calls, 1, 'asked once a second')
  t.equal(await ask('d', hostile), 'identity_unavailable')
  pass(1_000)
  t.equal(await ask('d', hostile), null)
  t.equal(await ask('e', hostile), null)
})

test('failures of several networks pause the calls of all, until one succeeds', async (t) => {
  const { server, ask, pass } = await createWorld(t)
  let calls = 0
  server.answer = (_request, response) => {
    calls += 1
    response.writeHead(500).end('{}')
  }
  for (const host of [1, 2, 3, 4, 5]) {
    t.equal(await ask(`token-${host}`, `192.0.2.${host}`), 'identity_unavailable')
  }
  t.equal(calls, 3)
  server.answer = undefined
  t.equal(await ask('ada', '192.0.2.6'), 'identity_unavailable')
  pass(1_000)
  t.equal(await ask('ada', '192.0.2.6'), 'ada')
  t.equal(await ask('token-1', '192.0.2.1'), null)
})
