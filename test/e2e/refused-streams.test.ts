import http from 'node:http'
import { readStat } from '../support/envoy.ts'
import {
  chatPath,
  type Gateway,
  gatewayTests,
  meter,
  models,
  subscriptions,
} from '../support/gateway.ts'
import { poll } from '../support/poll.ts'

const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: 1_000_000, one: 1 }),
    meter,
  ],
})

interface Whole {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
  /** Whether the response was complete, and on a connection used before. */
  readonly complete: boolean
  readonly reused: boolean
}

/** Sends a request over the agent's connection and reads the response. */
function send(agent: http.Agent, url: string, key: string, body: string): Promise<Whole> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
    const request = http.request(url, { method: 'POST', agent, headers }, async (response) => {
      let text = ''
      for await (const chunk of response.setEncoding('utf8')) text += chunk
      const { statusCode: status = 0, headers, complete } = response
      resolve({ status, headers, text, complete, reused: request.reusedSocket })
    })
    request.on('error', reject)
    request.end(body)
  })
}

/** The number of active requests in Envoy, from clients and to the model server. */
function busyWith({ envoy }: Gateway): Promise<readonly number[]> {
  const names = ['http.gateway.downstream_rq_active', 'cluster.model/llm/sim.upstream_rq_active']
  return Promise.all(names.map((name) => readStat(envoy, name)))
}

const streamed = (model: string, more: object = {}): string =>
  JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hi' }], ...more })

/** Every reason for which a streaming call can be refused. */
const refusals = [
  ['an unknown key', 'unknown', chatPath, streamed('sim'), 401],
  ['an unknown key, shared', 'unknown', '/v1/chat/completions', streamed('sim'), 401],
  ['a forbidden model', 'good', '/llm/nothing/v1/chat/completions', streamed('sim'), 403],
  ['a forbidden model, shared', 'good', '/v1/chat/completions', streamed('nothing'), 403],
  ['a reached limit', 'spent', chatPath, streamed('sim'), 429],
  ['a reached limit, shared', 'spent', '/v1/chat/completions', streamed('sim'), 429],
  ['a reached limit, messages', 'spent', '/v1/messages', streamed('sim', { max_tokens: 9 }), 429],
  ['a reached limit, responses', 'spent', '/v1/responses', streamed('sim', { input: 'x' }), 429],
  ['an ambiguous body', 'good', chatPath, '{"stream":true,"stream":false}', 400],
  ['ambiguous options', 'good', chatPath, streamed('sim', { stream_options: 1 }), 400],
  ['an unknown path', 'good', '/v1/chat/nothing', streamed('sim'), 404],
] as const

test('a refused stream is a complete response', async (t, gateway) => {
  const { key: good } = await gateway.mint()
  const { key: spent } = await gateway.mint({ subscription: 'one' })
  await gateway.chat(spent)
  await gateway.settled()
  const keys = { good, spent, unknown: 'sk-tg-unknown' }
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const before = await gateway.model.tally()

  let open = false
  for (const [title, who, path, body, status] of refusals) {
    const answer = await send(agent, gateway.url + path, keys[who], body)
    t.match(answer, { status, complete: true }, title)
    t.equal(answer.headers['content-type'], 'application/json', title)
    t.equal(answer.headers['content-length'], String(answer.text.length), title)
    t.match(JSON.parse(answer.text), { error: { message: String } }, title)
    t.equal(answer.reused, open, `${title}: the connection is reused if it was kept open`)
    // Envoy closes the connection after errors of its own, but not after those of Check.
    open = answer.headers.connection !== 'close'
    if ([401, 403, 429].includes(status)) t.ok(open, `${title}: the connection stays open`)
  }
  t.strictSame(await gateway.model.tally(), before, 'the model gets no request')

  const allowed = await send(agent, gateway.url + chatPath, good, streamed('sim'))
  t.match(allowed, { status: 200, complete: true })
  t.match(allowed.text, /data: \[DONE\]/)
  await poll(async () => (await busyWith(gateway)).every((each) => each === 0), 'Envoy is idle')
})

test('refused requests do not affect a running stream', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'one' })
  const slow = gateway.chat(key, { chunkDelayMs: 40 }, { stream: true })
  await poll(async () => (await gateway.model.tally()).open === 1, 'the stream is running')
  // Another key of the same user reaches the limit meanwhile.
  const { key: second } = await gateway.mint({ user, subscription: 'one' })
  await gateway.chat(second, { totalTokens: 40 })
  await poll(() => gateway.isSpent(key), 'the limit is reached')
  const before = await gateway.model.tally()
  const refused = await Promise.all(
    Array.from({ length: 20 }, () => gateway.chat(key, {}, { stream: true })),
  )
  t.ok(refused.every(({ status }) => status === 429))
  const { status, text } = await slow
  t.equal(status, 200)
  t.match(text, /data: \[DONE\]\r?\n\r?\n$/, 'the allowed stream is complete')
  const after = await gateway.model.tally()
  t.strictSame(after.requests, before.requests, 'no refused request reached the model')
  t.match(after, { open: 0, abandoned: before.abandoned })
})
