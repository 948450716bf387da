import { chatPath, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'

const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: 1_000_000, one: 1 }),
    meter,
  ],
})
const shared = '/v1/chat/completions'

test('without the service every request is refused', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user })
  const { key: limited } = await gateway.mint({ subscription: 'one' })
  t.equal((await gateway.chat(key)).status, 200)
  const before = await gateway.model.tally()

  await gateway.stopService()
  const authorization = `authorization: Bearer ${key}`
  const body = '{"model":"sim","messages":[]}'
  for (const path of [
    chatPath,
    shared,
    '/llm/sim/v1/models',
    '/llm/sim/v1/embeddings',
    '/llm/nothing/v1/chat/completions',
    '/v1/api-keys',
    '/v1/models',
    '/health',
  ]) {
    for (const headers of [[authorization], [authorization, 'x-tollgate-cluster: model_llm_sim']]) {
      const answer = await sendRaw(gateway.port, toBytes({ path, headers, body }))
      t.equal(answer.status, 503, path)
      t.match(answer.head, /retry-after: \d/)
      t.match(JSON.parse(answer.body), { error: { code: 'unavailable', type: 'server_error' } })
    }
  }
  t.equal(
    (await gateway.chat(undefined, {}, {}, shared)).status,
    401,
    'Envoy refuses it without Check',
  )
  t.strictSame(await gateway.model.tally(), before, 'the model gets no request')

  await gateway.startService()
  await poll(async () => (await gateway.chat(key)).status === 200, 'the service works again')
  t.ok((await gateway.mint({ user })).key, 'keys can be created')
  t.equal((await gateway.chat(limited)).status, 200)
  await poll(() => gateway.isSpent(limited), 'responses are counted')
})

test('a stream survives a stop of the service', async (t, gateway) => {
  const { key } = await gateway.mint()
  const { open } = await gateway.model.tally()
  const streaming = gateway.chat(key, { chunkDelayMs: 60 }, { stream: true })
  await poll(async () => (await gateway.model.tally()).open > open, 'the stream has begun')
  await gateway.stopService()
  const { status, text } = await streaming
  t.equal(status, 200)
  t.match(text, /data: \[DONE\]\n\n$/)
  await gateway.startService()
  await poll(async () => (await gateway.chat(key)).status === 200, 'the service works again')
})
