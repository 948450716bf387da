/** Decisions by the table are those of Check, seen from outside. */

import http from 'node:http'
import root, { type Test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Gateway, gatewayTests, models, subscriptions } from '../support/gateway.ts'
import { linesOf } from '../support/lines.ts'
import { poll } from '../support/poll.ts'
import { createRandom } from '../support/random.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runTwins } from '../support/twins/run-twins.ts'
import { startTwins } from '../support/twins/twin-gateways.ts'
import { documentsOf, first } from '../support/twins/twin-world.ts'

const skip = envoyPath() === undefined && 'no Envoy'

root.test('both ways answer random requests alike', { skip }, async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const requests = Number(process.env.REQUESTS ?? 200)
  const twins = await startTwins(t as Test, {
    env: {
      METER_PATHS: 'chat,messages,completions,responses,embeddings',
      SECRETS_DIR: temporaryFolder(t as Test, { llm: { secret: 'of-the-model' } }),
    },
    resources: (backendUrl) => documentsOf(backendUrl, first),
  })
  const run = await runTwins(twins, { random, requests, changeEvery: 60, keyChangeEvery: 25 })
  t.strictSame(run.apart, [])
  t.comment(`${run.hits} hits of ${run.asked}; ${JSON.stringify(run.statuses)}`)
  t.ok(run.hits > run.asked / 10, `${run.hits} hits`)
})

/** Takes out that the gateway removes its own headers where a request comes in: the scripts must not need it. */
function withoutRemoval(bootstrap: string): string {
  const isRemoval = (each: unknown) => {
    const { remove_on_match: by } = (each ?? {}) as { remove_on_match?: { key_matcher: object } }
    return by !== undefined && JSON.stringify(by.key_matcher).includes('"x-tollgate-"')
  }
  let removed = 0
  const without = JSON.parse(bootstrap, (_, value) => {
    if (!Array.isArray(value) || !value.some(isRemoval)) return value
    removed += 1
    return value.filter((each) => !isRemoval(each))
  })
  if (removed === 0) throw new Error('nothing removes them')
  return JSON.stringify(without)
}

const test = gatewayTests({
  env: { METER_PATHS: 'chat,messages', CHARGE_UNREPORTED: 'true' },
  concurrency: 2,
  resources: (url) => [...models(url), ...subscriptions({ plenty: 1_000_000_000, ten: 1_000 })],
  adjustEnvoy: withoutRemoval,
})

interface Sent {
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body?: object
}

const chat = '/llm/sim/v1/chat/completions'

/** One request on a connection of its own, so that any thread may get it. */
function send({ port }: Gateway, key: string, { path = chat, headers, body }: Sent = {}) {
  const authorization = `Bearer ${key}`
  const sent = { authorization, 'content-type': 'application/json', ...headers }
  return new Promise<{ status: number; id: string; text: string }>((resolve, reject) => {
    const options = { port, path, method: 'POST', headers: sent, agent: false }
    const request = http.request(options, (response) => {
      let text = ''
      response.on('data', (piece) => {
        text += piece
      })
      response.on('end', () => {
        const id = String(response.headers['x-request-id'])
        resolve({ status: response.statusCode ?? 0, id, text })
      })
    })
    request.on('error', reject)
    request.end(JSON.stringify({ model: 'sim', messages: [], ...body }))
  })
}

/** How many of these requests the table has decided. */
function hitsOf({ journal }: Gateway, ids: readonly string[]): number {
  const by = new Map(
    linesOf(journal)
      .ended()
      .map((line) => [line.usage.response.id, line.by]),
  )
  return ids.filter((id) => by.get(id) === 'table').length
}

test('the table decides soon after the start', async (t, gateway) => {
  const { key } = await gateway.mint()
  const decides = async () => {
    const { status, id } = await send(gateway, key)
    return status === 200 && hitsOf(gateway, [id]) === 1
  }
  await poll(decides, 'the table decides')
  t.pass()
})

test('who waits for each answer is refused at the limit', async (t, gateway) => {
  const tokens = { totalTokens: 100 }
  const kinds: Readonly<Record<string, Sent>> = {
    JSON: { body: { sim: tokens } },
    'JSON by the body': { path: '/v1/chat/completions', body: { sim: tokens } },
    stream: { body: { stream: true, sim: tokens } },
    'stream with usage': {
      body: { stream: true, stream_options: { include_usage: true }, sim: tokens },
    },
    messages: { path: '/v1/messages', body: { max_tokens: 90, sim: tokens } },
    'streamed messages': {
      path: '/llm/sim/v1/messages',
      body: { max_tokens: 90, stream: true, sim: tokens },
    },
  }
  for (const [name, request] of Object.entries(kinds)) {
    const { key } = await gateway.mint({ subscription: 'ten' })
    const ids: string[] = []
    for (;;) {
      const { status, id } = await send(gateway, key, request)
      if (status === 429 || ids.length > 20) break
      t.equal(status, 200, name)
      ids.push(id)
    }
    t.equal(ids.length, 10, name)
    t.ok(hitsOf(gateway, ids) >= 7, `${name}: ${hitsOf(gateway, ids)} hits`)
  }
})

test('a hit is charged what its model does not report', async (t, gateway) => {
  const { key } = await gateway.mint()
  const ids: string[] = []
  for (let i = 0; i < 3; i += 1) {
    ids.push((await send(gateway, key, { body: { sim: { words: 40, usage: 'null' } } })).id)
  }
  t.ok(hitsOf(gateway, ids) >= 1)
  const lines = linesOf(gateway.journal).ended()
  for (const id of ids) {
    const { usage } = lines.find((line) => line.usage.response.id === id) ?? {}
    t.match(usage, { estimate: { input: Number, bytesPerToken: Number }, held: { bytes: Number } })
    t.ok((usage?.estimate?.input ?? 0) > 0)
  }
})

test('callers at once pass a limit by what runs', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'ten' })
  let allowed = 0
  const caller = async () => {
    while ((await send(gateway, key, { body: { sim: { totalTokens: 50 } } })).status === 200) {
      allowed += 1
    }
  }
  await Promise.all(Array.from({ length: 6 }, caller))
  t.ok(allowed >= 20 && allowed <= 26, `${allowed} of 20`)
})

test('no header of a client is taken for a decision', async (t, gateway) => {
  const { key } = await gateway.mint()
  const unknown = key.replace(/.{8}$/, 'aaaaaaaa')
  for (let i = 0; i < 3; i += 1) t.equal((await send(gateway, key)).status, 200)
  const names = [
    'x-tollgate-cluster',
    'X-Tollgate-Cluster',
    'X-TOLLGATE-CLUSTER',
    'x-tollgate-clusteR',
  ]
  const before = await gateway.model.tally()
  for (const name of names) {
    for (const value of ['llm/other', '', ['llm/other', 'llm/sim']]) {
      const headers = { [name]: value, 'x-tollgate-path': '/v1/models', 'x-tollgate-again': 'true' }
      for (const path of [chat, '/v1/chat/completions', '/llm/sim/v1/models']) {
        const { status } = await send(gateway, unknown, { path, headers })
        t.equal(status, 401, `${name}: ${value} ${path}`)
      }
    }
  }
  t.strictSame(await gateway.model.tally(), before, 'the model gets no request')
  // Nor does one change where a known key's request goes.
  const headers = {
    'x-tollgate-cluster': 'llm/other',
    'x-tollgate-path': '/v1/models',
    'x-tollgate-again': 'true',
    'x-tollgate-miss': 'x',
  }
  const { status, text } = await send(gateway, key, { headers, body: { sim: { echo: true } } })
  t.equal(status, 200)
  const { path, headers: received } = JSON.parse(text).sim_echo
  t.equal(path, '/v1/chat/completions')
  t.strictSame(
    Object.keys(received).filter(
      (name) => name.startsWith('x-tollgate-') && name !== 'x-tollgate-hop',
    ),
    [],
  )
})
