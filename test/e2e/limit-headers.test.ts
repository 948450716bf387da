import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import root, { type Test } from 'tap'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import {
  type Answer,
  chatPath,
  type Gateway,
  gatewayTests,
  meter,
  models,
  subscriptions,
} from '../support/gateway.ts'
import { withTimeIn } from '../support/window-ends.ts'

/** Headers that a provider sends about its own account, and one of ours. */
const foreign = {
  ratelimit: '"theirs";r=1;t=1',
  'ratelimit-policy': '"theirs";q=1;w=1',
  'x-ratelimit-limit-tokens': '111',
  'x-ratelimit-remaining-tokens': '111',
  'x-ratelimit-reset-tokens': '111s',
  'x-ratelimit-limit-requests': '111',
  'anthropic-ratelimit-tokens-limit': '111',
  'anthropic-ratelimit-tokens-remaining': '111',
  'anthropic-ratelimit-input-tokens-remaining': '111',
  'x-tollgate-budget-remaining': '111',
}

const team = { groups: ['team'] }
const provider = createServer((_, response) => {
  const body = JSON.stringify({ usage: { total_tokens: 10 } })
  response.writeHead(200, { 'content-type': 'application/json', 'x-theirs': 'kept', ...foreign })
  response.end(body)
})
root.teardown(() => {
  provider.close()
  provider.closeAllConnections()
})
provider.listen(0, '127.0.0.1')
await once(provider, 'listening')
const providerUrl = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`

/** Two units of money a month for the whole group, of which a token costs a half. */
const budgeted = subscription(
  'budgeted',
  team,
  { 'llm/sim': [[1_000_000, '1h']], 'llm/provided': [[1_000_000, '1h']] },
  { ofModels: { billingRate: { perToken: '0.5' } } },
)
budgeted.spec.calendar = { timeZone: 'Europe/Zurich' }
budgeted.spec.limits = [
  { name: 'month', per: 'group', of: 'cost', limit: '2', window: 'month' },
  { name: 'watched', of: 'cost', limit: '0.1', window: 'day', enforce: false },
]
const shared = modelRef('shared', { backendUrl: providerUrl })
shared.spec.limits = [{ name: 'all', per: 'model', limit: 15, window: 'month' }]

const test = gatewayTests({
  env: { METER_PATHS: 'chat,messages' },
  resources: (backendUrl) => [
    ...models(backendUrl),
    modelRef('provided', { backendUrl: providerUrl }),
    shared,
    // Nothing listens on this port.
    modelRef('gone', { backendUrl: 'http://127.0.0.1:1/base' }),
    accessPolicy('provided', ['llm/provided', 'llm/gone', 'llm/shared'], team),
    ...subscriptions({ plenty: 1_000_000 }),
    subscription('two', team, {
      'llm/sim': [
        [100, '1m'],
        [1_000, '1h'],
      ],
      'llm/provided': [[100, '1m']],
      'llm/gone': [[100, '1m']],
      'llm/shared': [[1_000_000, '1h']],
    }),
    budgeted,
    meter,
  ],
})

const policies = '"1m";q=100;w=60;qu="tokens", "1h";q=1000;w=3600;qu="tokens"'
const init = { method: 'POST', body: JSON.stringify({ model: 'sim', max_tokens: 5, messages: [] }) }

/** A key of somebody whose minute is not over soon. */
function mintTwo(gateway: Gateway) {
  const user = withTimeIn('1m', 20_000, gateway.newUser)
  return gateway.mint({ user, subscription: 'two' })
}

/** The headers of a response about limits. */
function limitsIn({ headers }: Answer): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => /ratelimit|retry|budget/.test(name)))
}

test('a successful response reports the remaining tokens', async (t, gateway) => {
  const { key } = await mintTwo(gateway)
  const first = limitsIn(await gateway.chat(key, { totalTokens: 40 }))
  t.match(first, {
    'ratelimit-policy': policies,
    ratelimit: /^"1m";r=100;t=\d\d, "1h";r=1000;t=\d{3,4}$/,
    'x-ratelimit-limit-tokens': '1000',
    'x-ratelimit-remaining-tokens': '1000',
    'x-ratelimit-reset-tokens': /^\d+m\d+s$/,
  })
  t.equal(Object.keys(first).length, 5)
  await gateway.settled()
  t.match(limitsIn(await gateway.chat(key, {}, { stream: true })), {
    ratelimit: /^"1m";r=60;t=\d+, "1h";r=960;t=\d+$/,
    'x-ratelimit-limit-tokens': '100',
    'x-ratelimit-remaining-tokens': '60',
    'x-ratelimit-reset-tokens': /^(\d+s|\d+ms|1m0s)$/,
  })
})

test('Anthropic clients get Anthropic’s headers', async (t, gateway) => {
  for (const path of ['/v1/messages', '/llm/sim/v1/messages']) {
    const { key } = await mintTwo(gateway)
    await gateway.chat(key, { totalTokens: 40 })
    await gateway.settled()
    const answer = await gateway.ask(path, key, init)
    t.equal(answer.status, 200, path)
    t.strictSame(Object.keys(limitsIn(answer)).sort(), [
      'anthropic-ratelimit-tokens-limit',
      'anthropic-ratelimit-tokens-remaining',
      'anthropic-ratelimit-tokens-reset',
      'ratelimit',
      'ratelimit-policy',
    ])
    t.match(limitsIn(answer), {
      'anthropic-ratelimit-tokens-limit': '100',
      'anthropic-ratelimit-tokens-remaining': '60',
      'anthropic-ratelimit-tokens-reset': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
    })
  }
})

test('reports a reached limit in both formats', async (t, gateway) => {
  const { key } = await mintTwo(gateway)
  await gateway.chat(key, { totalTokens: 140 })
  await gateway.settled()
  const refused = await gateway.chat(key)
  t.equal(refused.status, 429)
  t.match(JSON.parse(refused.text), {
    error: {
      type: 'tokens',
      code: 'rate_limit_exceeded',
      message:
        /140 of 100 tokens in 1m \(subscription "two", resets at [-\dT:]+Z\)\. Please try again in \d+m?s?\w*\.$/,
    },
  })
  const retryAfterS = refused.headers.get('retry-after')
  t.match(limitsIn(refused), {
    'ratelimit-policy': policies,
    ratelimit: new RegExp(`^"1m";r=0;t=${retryAfterS}, "1h";r=860;t=\\d+$`),
    'x-ratelimit-limit-tokens': '100',
    'x-ratelimit-remaining-tokens': '0',
  })
  for (const path of ['/v1/messages', '/llm/sim/v1/messages']) {
    const told = await gateway.ask(path, key, init)
    t.equal(told.status, 429, path)
    t.match(JSON.parse(told.text), { type: 'error', error: { type: 'rate_limit_error' } })
    t.match(limitsIn(told), {
      'retry-after': /^\d+$/,
      'anthropic-ratelimit-tokens-limit': '100',
      'anthropic-ratelimit-tokens-remaining': '0',
    })
  }
})

test('removes the provider’s own limit headers', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'two' })
  const body = JSON.stringify({ model: 'provided', messages: [] })
  for (const path of [
    '/llm/provided/v1/chat/completions',
    '/llm/provided/v1/files',
    '/v1/chat/completions',
  ]) {
    const answer = await gateway.ask(path, key, { method: 'POST', body })
    t.equal(answer.headers.get('x-theirs'), 'kept')
    t.strictSame(Object.keys(limitsIn(answer)).sort(), [
      'ratelimit',
      'ratelimit-policy',
      'x-ratelimit-limit-tokens',
      'x-ratelimit-remaining-tokens',
      'x-ratelimit-reset-tokens',
    ])
    t.notMatch(JSON.stringify(limitsIn(answer)), /111|theirs|, .*, /)
  }
  const listing = await gateway.ask('/llm/provided/v1/models', key)
  t.equal(listing.headers.get('x-theirs'), 'kept')
  t.strictSame(limitsIn(listing), {}, 'no limit applies to the list')
})

test('a budget of a group is told, and refuses all of it', async (t, gateway) => {
  const [ada, bob] = [
    await gateway.mint({ subscription: 'budgeted' }),
    await gateway.mint({ subscription: 'budgeted' }),
  ]
  const told = (remaining: string) => ({
    'x-tollgate-budget-limit': '2',
    'x-tollgate-budget-remaining': remaining,
    'x-tollgate-budget-reset': /^\d{4}-\d\d-\d\dT2[23]:00:00Z$/,
    'ratelimit-policy': '"1h";q=1000000;w=3600;qu="tokens"',
  })
  t.match(limitsIn(await gateway.chat(ada.key, { totalTokens: 3 })), told('2'))
  await gateway.settled()
  t.match(limitsIn(await gateway.chat(bob.key, { totalTokens: 1 }, { stream: true })), told('0.5'))
  await gateway.settled()
  const refused = [
    await gateway.chat(ada.key),
    await gateway.chat(bob.key, {}, { stream: true }),
    await gateway.ask('/llm/provided/v1/chat/completions', bob.key, init),
  ]
  for (const { status, text, headers } of refused) {
    t.equal(status, 429)
    const { error } = JSON.parse(text)
    t.match(error, {
      type: 'usage_limit_reached',
      code: 'insufficient_quota',
      message:
        /^The budget "month" of your subscription is used up: 2 of 2 in a month \(subscription "budgeted", shared by your group, resets at \d{4}-\d\d-01T00:00:00\+0[12]:00 in Europe\/Zurich\)\.$/,
    })
    t.equal(
      new Date(error.resets_at * 1_000).toISOString().slice(0, 19),
      headers.get('x-tollgate-budget-reset')?.slice(0, 19),
    )
    t.equal(headers.get('x-should-retry'), 'false')
    t.equal(headers.get('retry-after'), null)
    t.equal(headers.get('x-tollgate-budget-remaining'), '0')
  }
  for (const path of ['/v1/messages', '/llm/sim/v1/messages']) {
    const told = await gateway.ask(path, bob.key, init)
    t.equal(told.status, 429, path)
    t.match(JSON.parse(told.text), {
      error: { type: 'rate_limit_error', message: /^The budget "month"/ },
    })
    t.match(limitsIn(told), {
      'x-should-retry': 'false',
      'retry-after': undefined,
      'x-tollgate-budget-remaining': '0',
    })
  }
})

test('what others use of a model is not told', async (t, gateway) => {
  const [ada, bob] = [
    await gateway.mint({ subscription: 'two' }),
    await gateway.mint({ subscription: 'two' }),
  ]
  const body = JSON.stringify({ model: 'shared', messages: [] })
  const ask = (key: string, path = '/v1/chat/completions') =>
    gateway.ask(`/llm/shared${path}`, key, { method: 'POST', body })
  for (const { key } of [ada, bob]) {
    const answer = await ask(key)
    t.match(limitsIn(answer), { 'ratelimit-policy': '"1h";q=1000000;w=3600;qu="tokens"' })
    await gateway.settled()
  }
  const refused = await ask(ada.key)
  t.equal(refused.status, 429)
  t.match(
    JSON.parse(refused.text).error.message,
    /^The token limit "all" of this model is used up: 100 % in a month \(shared by all users of the model, resets at /,
  )
  t.match(limitsIn(refused), {
    'ratelimit-policy': '"1h";q=1000000;w=3600;qu="tokens"',
    ratelimit: /^"1h";r=999990;t=\d+$/,
    'x-ratelimit-remaining-tokens': '999990',
  })
})

test('no caller sees the figures of another', async (t, gateway) => {
  const [ada, bob] = [
    await gateway.mint({ subscription: 'two' }),
    await gateway.mint({ subscription: 'two' }),
  ]
  await gateway.chat(ada.key, { totalTokens: 140 })
  await gateway.settled()
  t.match(limitsIn(await gateway.chat(bob.key)), { ratelimit: /^"1m";r=100;/ })
  for (const [key, path, status] of [
    [undefined, chatPath, 401],
    ['sk-tg-unknown', chatPath, 401],
    [ada.key, '/llm/nothing/v1/chat/completions', 403],
    [ada.key, '/llm/other/v1/chat/completions', 403],
    [undefined, '/v1/messages', 401],
  ] as const) {
    const answer = await gateway.ask(path, key, init)
    t.equal(answer.status, status)
    const { 'x-should-retry': retry, ...limits } = limitsIn(answer)
    t.equal(retry, 'false')
    t.strictSame(limits, {})
  }
})

/** Checks for Anthropic’s error format, with this status and type. */
function isAnthropic(t: Test, answer: Answer, status: number, type: string): void {
  t.equal(answer.status, status, answer.text)
  t.equal(answer.headers.get('content-type'), 'application/json')
  const { error, ...rest } = JSON.parse(answer.text)
  t.strictSame(rest, { type: 'error' })
  t.strictSame(Object.keys(error).sort(), ['message', 'type'])
  t.equal(error.type, type)
  t.match(error.message, /\.$/)
}

test('every error for messages has Anthropic’s format', async (t, gateway) => {
  const { key } = await gateway.mint()
  const ask = (path: string, credential?: string, body = init.body) =>
    gateway.ask(path, credential, { method: 'POST', body })
  for (const path of ['/v1/messages', '/llm/sim/v1/messages', '/v1/messages?beta=true']) {
    isAnthropic(t, await ask(path), 401, 'authentication_error')
    isAnthropic(t, await ask(path, 'sk-tg-unknown'), 401, 'authentication_error')
    isAnthropic(t, await ask(path, key, '{"a":1,"a":2}'), 400, 'invalid_request_error')
  }
  const foreignModel = JSON.stringify({ model: 'nothing', messages: [] })
  isAnthropic(t, await ask('/v1/messages', key, foreignModel), 404, 'not_found_error')
  isAnthropic(t, await ask('/llm/nothing/v1/messages', key), 404, 'not_found_error')
  isAnthropic(t, await ask('/v1/messages/nothing', key), 404, 'not_found_error')
  isAnthropic(
    t,
    await ask('/v1/messages', key, 'x'.repeat(34 * 1_048_576)),
    413,
    'request_too_large',
  )
})

test('an unreachable model is reported in Anthropic’s format', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'two' })
  const body = JSON.stringify({ model: 'gone', max_tokens: 5, messages: [] })
  for (const path of ['/v1/messages', '/llm/gone/v1/messages?beta=true']) {
    const answer = await gateway.ask(path, key, { method: 'POST', body })
    isAnthropic(t, answer, 503, 'overloaded_error')
    t.match(limitsIn(answer), { 'retry-after': '1', ratelimit: /^"1m";r=100;t=\d+$/ })
  }
})

test('Envoy’s own errors for messages have Anthropic’s format', async (t, gateway) => {
  const { key } = await gateway.mint()
  await gateway.stopService()
  const answer = await gateway.ask('/v1/messages', key, init)
  isAnthropic(t, answer, 503, 'overloaded_error')
  t.equal(answer.headers.get('retry-after'), '1')
  await gateway.startService()
})
