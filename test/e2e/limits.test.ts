import { subscription } from '../support/documents.ts'
import { chatPath, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { endOf, withTimeIn } from '../support/window-ends.ts'

const team = { groups: ['team'] }
const own = { name: 'own', limit: 40, window: '1h' }
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ hundred: 100, one: 1 }),
    subscription('minute', team, { 'llm/sim': [[100, '1m']], 'llm/other': [[100, '1m']] }),
    subscription('short', team, { 'llm/sim': [[10, '2s']] }),
    subscription('two-rates', team, {
      'llm/sim': [
        [1_000, '1s'],
        [50, '1h'],
      ],
    }),
    subscription('raised', team, { 'llm/sim': [[1_000, '1h']] }, { named: [own] }),
    subscription('uneven', team, { 'llm/sim': [[40, '1h']], 'llm/other': [[80, '1h']] }),
    meter,
  ],
})

const forty = { totalTokens: 40 }

test('three responses of 40 tokens exceed a limit of 100', async (t, gateway) => {
  const user = withTimeIn('1m', 20_000, gateway.newUser)
  const { key } = await gateway.mint({ user, subscription: 'minute' })
  for (let i = 0; i < 3; i += 1) {
    t.equal((await gateway.chat(key, forty)).status, 200)
    await gateway.settled()
  }
  const before = await gateway.model.tally()
  const refused = await gateway.chat(key, forty)
  t.equal(refused.status, 429)
  const retryAfterS = Number(refused.headers.get('retry-after'))
  t.ok(retryAfterS >= 1 && retryAfterS <= 60, `retry-after ${retryAfterS}`)
  t.equal(refused.headers.get('content-type'), 'application/json')
  t.match(JSON.parse(refused.text), {
    error: { type: 'tokens', code: 'rate_limit_exceeded', message: String },
  })
  t.strictSame(await gateway.model.tally(), before, 'the model gets no request')

  const other = await gateway.mint({ subscription: 'minute' })
  t.equal((await gateway.chat(other.key, forty)).status, 200, 'another user is allowed')
  const anotherModel = await gateway.chat(key, forty, {}, '/llm/other/v1/chat/completions')
  t.equal(anotherModel.status, 200, 'another model is allowed')
  const plenty = await gateway.mint({ user, subscription: 'hundred' })
  t.equal((await gateway.chat(plenty.key, forty)).status, 200, 'another subscription is allowed')
  const same = await gateway.mint({ user, subscription: 'minute' })
  t.equal(
    (await gateway.chat(same.key, forty)).status,
    429,
    'another key of the same user is refused',
  )
})

test('requests are allowed again after the window', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'short' })
  const nextEnd = () => endOf('2s', user, Date.now())
  /** Uses up a window that has just begun; resolves to its end. */
  const closes = async () => {
    const begin = nextEnd()
    await poll(() => Date.now() >= begin, 'a window begins')
    t.equal((await gateway.chat(key, { totalTokens: 10 })).status, 200)
    await poll(() => gateway.isSpent(key), 'the limit is reached')
    return nextEnd()
  }
  const end = await closes()
  const { headers } = await gateway.ask(chatPath, key)
  t.match(headers.get('retry-after') ?? '1', /^[12]$/)
  await poll(async () => !(await gateway.isSpent(key)), 'the window has ended')
  t.ok(Date.now() >= end, 'not before its end')
  await closes()
})

test('every limit of a subscription applies', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'two-rates' })
  t.equal((await gateway.chat(key, { totalTokens: 50 })).status, 200)
  await poll(() => gateway.isSpent(key), 'the longer limit is reached')
  const { status, headers } = await gateway.chat(key)
  t.equal(status, 429)
  const now = Date.now()
  const leftS = (endOf('1h', user, now) - now) / 1_000
  const retryAfterS = Number(headers.get('retry-after'))
  t.ok(Math.abs(retryAfterS - leftS) < 5, `retry-after ${retryAfterS}`)
})

test('models on the shared route have separate limits', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'uneven' })
  const ask = (model: string) => gateway.chat(key, forty, { model }, '/v1/chat/completions')
  t.equal((await ask('sim')).status, 200)
  await gateway.settled()
  t.equal((await ask('sim')).status, 429)
  t.equal((await ask('other')).status, 200)
  await gateway.settled()
  t.equal((await ask('other')).status, 200)
  await gateway.settled()
  t.equal((await ask('other')).status, 429)
  t.equal((await ask('sim')).status, 429)
  t.equal((await gateway.chat(key)).status, 429, 'the path of the model uses the same counter')
})

test('a reached limit refuses everything except the list of models', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'one' })
  await gateway.chat(key, forty)
  await gateway.settled()
  const body = { model: 'sim', input: 'x', prompt: 'x', max_tokens: 1, messages: [] }
  const init = { method: 'POST', body: JSON.stringify(body) }
  for (const operation of ['completions', 'embeddings', 'messages', 'responses']) {
    for (const path of [`/llm/sim/v1/${operation}`, `/v1/${operation}`]) {
      t.equal((await gateway.ask(path, key, init)).status, 429, path)
    }
  }
  t.equal((await gateway.ask('/llm/sim/v1/models/sim', key)).status, 429)
  t.equal((await gateway.ask('/llm/sim/v1/models', key)).status, 200)
})

test('counts concurrent responses in full', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'hundred' })
  const sim = { totalTokens: 20, delayMs: 500 }
  const statuses = await Promise.all(
    Array.from({ length: 6 }, async () => (await gateway.chat(key, sim)).status),
  )
  t.strictSame(statuses, [200, 200, 200, 200, 200, 200], 'none was counted when they started')
  await gateway.settled()
  t.equal((await gateway.chat(key, sim)).status, 429)
})

test('explains a refusal of a model request by its request id', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'one' })
  t.equal((await gateway.chat(key, { totalTokens: 5 })).status, 200)
  await poll(() => gateway.isSpent(key), 'the limit is reached')
  const refused = await gateway.chat(key)
  t.equal(refused.status, 429)
  const requestId = refused.headers.get('x-request-id')
  const explain = (credential: string) =>
    gateway.ask('/v1/explain', credential, { method: 'POST', body: JSON.stringify({ requestId }) })
  const explained = await explain(key)
  t.equal(explained.status, 200)
  t.match(JSON.parse(explained.text), {
    allowed: false,
    refusal: { requestId, status: 429, message: JSON.parse(refused.text).error.message },
    limits: [{ limit: 1, used: 5, remaining: 0 }],
  })
  t.equal((await explain(`token-${gateway.newUser()}`)).status, 404, 'the refusal of another user')
  t.equal((await explain('token-admin')).status, 200)
})

test('an increase holds until it is ended', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'raised' })
  const ask = async () => {
    const { status } = await gateway.chat(key, forty)
    await gateway.settled()
    return status
  }
  t.equal(await ask(), 200)
  t.equal(await ask(), 429)
  const until = new Date(Date.now() + 3_600_000).toISOString()
  const more = { subscription: 'raised', name: 'own', user, limit: 100, until, reason: 'a test' }
  const body = JSON.stringify(more)
  const headers = { 'content-type': 'application/json' }
  const path = '/v1/admin/increases'
  const made = await gateway.ask(path, 'token-admin', { method: 'POST', headers, body })
  t.equal(made.status, 200, made.text)
  t.equal(await ask(), 200, 'what was counted stays')
  const { text } = await gateway.ask('/v1/limits', key)
  const row = { limit: 100, used: 80, remaining: 20, increasedUntil: String }
  t.match(
    JSON.parse(text).data.find(({ name }: { name: string }) => name === 'own'),
    row,
  )
  const allowed = await gateway.chat(key, forty)
  t.match(allowed.headers.get('ratelimit-policy'), '"own";q=100;w=3600')
  await gateway.settled()
  t.equal(await ask(), 429, 'it is reached, too')
  const { id } = JSON.parse(made.text)
  const ended = await gateway.ask(`${path}/${id}`, 'token-admin', { method: 'DELETE' })
  t.equal(ended.status, 200, ended.text)
  const refused = await gateway.chat(key, forty)
  t.equal(refused.status, 429)
  t.match(refused.text, / 40 /)

  const { user: _, ...asked } = more
  const post = (at: string, as: string, json = '') =>
    gateway.ask(`/v1/limit-requests${at}`, as, { method: 'POST', headers, body: json })
  const request = await post('', `token-${user}`, JSON.stringify({ ...asked, limit: 130 }))
  t.equal(request.status, 200, request.text)
  const approved = await post(`/${JSON.parse(request.text).id}/approve`, 'token-admin')
  t.equal(approved.status, 200, approved.text)
  t.equal(await ask(), 200, 'asked for, and approved')
})
