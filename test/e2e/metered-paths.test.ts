import { counts, scales } from '../support/counted.ts'
import { type Gateway, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'

const resources = (backendUrl: string) => [
  ...models(backendUrl),
  ...scales(0, 17, 40),
  ...subscriptions({ plenty: 1_000_000 }),
  meter,
]
const all = gatewayTests({
  resources,
  env: { METER_PATHS: 'chat,messages,responses,completions,embeddings' },
})
const responsesAlone = gatewayTests({
  resources,
  env: { METER_PATHS: 'responses', UNMETERED_PATHS: 'closed' },
})
const estimated = gatewayTests({ resources, env: { UNUSABLE_USAGE: 'estimate' } })

const bodies: Readonly<Record<string, object>> = {
  'chat/completions': { messages: [{ role: 'user', content: 'Hi' }] },
  completions: { prompt: 'Hi' },
  responses: { input: 'Hi' },
  embeddings: { input: 'Hi' },
  messages: { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 99 },
}

function call(gateway: Gateway, path: string, key: string, fields: object) {
  const body = JSON.stringify({ model: 'sim', ...fields })
  return gateway.ask(path, key, { method: 'POST', body })
}

for (const [operation, body] of Object.entries(bodies)) {
  all(`counts ${operation} if metered`, async (t, gateway) => {
    for (const stream of operation === 'embeddings' ? [false] : [false, true]) {
      for (const path of [`/llm/sim/v1/${operation}`, `/v1/${operation}`]) {
        // For messages, the sample server ignores totalTokens; input and output are added.
        const sim = operation === 'messages' ? {} : { totalTokens: 40 }
        await counts(t, gateway, operation === 'messages' ? 17 : 40, async (key) => {
          const { status, text } = await call(gateway, path, key, { ...body, stream, sim })
          t.equal(status, 200, `${path} ${stream}`)
          const asked = operation === 'responses' || operation === 'messages' || !stream
          t.equal(text.includes('"usage":{'), asked, 'a stream has usage only if requested')
        })
      }
    }
  })
}

for (const [test, refused] of [
  [all, true],
  [estimated, false],
] as const) {
  const title = refused ? 'refused' : 'open'
  test(`deferred is ${title} on both paths of completions`, async (t, gateway) => {
    const { key } = await gateway.mint()
    for (const path of ['/llm/sim/v1/completions', '/v1/completions']) {
      for (const fields of [
        { deferred: true },
        { deferred: 1, max_tokens: 9 },
        { Deferred: true },
        { extra_body: { deferred: true } },
      ]) {
        const { status, text } = await call(gateway, path, key, { prompt: 'Hi', ...fields })
        t.equal(status, refused ? 400 : 200, `${path} ${JSON.stringify(fields)}`)
        if (refused) t.match(JSON.parse(text).error, { code: 'invalid_body', message: /deferred/ })
      }
      const { status } = await call(gateway, path, key, { prompt: 'Hi', deferred: false })
      t.equal(status, 200, path)
    }
  })
}

responsesAlone('refuses uncounted operations if configured', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const operation of ['chat/completions', 'completions', 'embeddings', 'messages']) {
    for (const path of [`/llm/sim/v1/${operation}`, `/v1/${operation}`]) {
      const { status, text } = await call(gateway, path, key, { ...bodies[operation] })
      t.equal(status, 403, path)
      t.match(JSON.parse(text).error.message, /is closed here; use POST \/v1\/responses\.$/)
    }
  }
  t.equal((await call(gateway, '/v1/responses', key, { input: 'x' })).status, 200)
  t.equal((await gateway.ask('/llm/sim/v1/models', key)).status, 200)
})

estimated('estimates unreported usage if configured', async (t, gateway) => {
  const body = JSON.stringify({ messages: [], sim: { usage: 'none', words: 0 } })
  const send = (key: string) =>
    gateway.ask('/llm/sim/v1/chat/completions', key, { method: 'POST', body })
  const { text } = await send((await gateway.mint()).key)
  const tokens = Math.ceil(Buffer.byteLength(text) / 4)
  const metrics = gateway.addresses.metrics
  const scrape = await fetch(`http://127.0.0.1:${metrics?.port}/metrics`)
  await scrape.text()
  await gateway.settled()
  const after = await (await fetch(`http://127.0.0.1:${metrics?.port}/metrics`)).text()
  const estimate = /tollgate_tokens_estimated_total\{model="llm\/sim"\} (\d+)/.exec(after)?.[1]
  t.equal(Number(estimate), tokens)
  await counts(t, gateway, 17, (key) => gateway.chat(key))
})
