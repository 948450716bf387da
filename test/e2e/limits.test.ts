import { subscription } from '../support/documents.ts'
import { chatPath, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'

const team = { groups: ['team'] }
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
    subscription('uneven', team, { 'llm/sim': [[40, '1h']], 'llm/other': [[80, '1h']] }),
    meter,
  ],
})

const forty = { totalTokens: 40 }

test('three answers of forty pass a hundred', async (t, gateway) => {
  const user = gateway.newUser()
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
  t.strictSame(await gateway.model.tally(), before, 'the model is not asked')

  const other = await gateway.mint({ subscription: 'minute' })
  t.equal((await gateway.chat(other.key, forty)).status, 200, 'another user passes')
  const anotherModel = await gateway.chat(key, forty, {}, '/llm/other/v1/chat/completions')
  t.equal(anotherModel.status, 200, 'another model passes')
  const plenty = await gateway.mint({ user, subscription: 'hundred' })
  t.equal((await gateway.chat(plenty.key, forty)).status, 200, 'another subscription passes')
  const same = await gateway.mint({ user, subscription: 'minute' })
  t.equal((await gateway.chat(same.key, forty)).status, 429, 'another key of the user does not')
})

test('after the window it passes again', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'short' })
  const closes = async () => {
    t.equal((await gateway.chat(key, { totalTokens: 10 })).status, 200)
    await poll(() => gateway.isSpent(key), 'the limit is reached')
  }
  const startedAt = performance.now()
  await closes()
  const { headers } = await gateway.ask(chatPath, key)
  t.match(headers.get('retry-after') ?? '1', /^[12]$/)
  await poll(async () => !(await gateway.isSpent(key)), 'the window is over')
  t.ok(performance.now() - startedAt > 1_900, 'not before its time')
  await closes()
})

test('every rate of a subscription holds', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'two-rates' })
  t.equal((await gateway.chat(key, { totalTokens: 50 })).status, 200)
  await poll(() => gateway.isSpent(key), 'the longer one is reached')
  const { status, headers } = await gateway.chat(key)
  t.equal(status, 429)
  const retryAfterS = Number(headers.get('retry-after'))
  t.ok(retryAfterS > 3_000 && retryAfterS <= 3_600, `retry-after ${retryAfterS}`)
})

test('models on the shared route hold apart', async (t, gateway) => {
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
  t.equal((await gateway.chat(key)).status, 429, 'by path it is the same counter')
})

test('a limit closes all but the listing', async (t, gateway) => {
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
  t.equal((await gateway.ask('/llm/sim/v1/files', key)).status, 429)
  t.equal((await gateway.ask('/llm/sim/v1/models', key)).status, 200)
})

test('parallel answers are all counted whole', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'hundred' })
  const sim = { totalTokens: 20, delayMs: 500 }
  const statuses = await Promise.all(
    Array.from({ length: 6 }, async () => (await gateway.chat(key, sim)).status),
  )
  t.strictSame(statuses, [200, 200, 200, 200, 200, 200], 'none of them was counted yet')
  await gateway.settled()
  t.equal((await gateway.chat(key, sim)).status, 429)
})
