/** Windows of a minute, four users, 60 streams of 5 to 20 s, one in ten hung up on; crashes meanwhile. */

import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { meter, models } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { createRandom } from '../support/random.ts'
import { type Replicas, startReplicas } from '../support/replicas.ts'
import { runStreams } from '../support/stream-load.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const limit = 20_000
const overshootPercent = 25
const promised = limit * (1 + overshootPercent / 100)
const users = ['user-1', 'user-2', 'user-3', 'user-4']
const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')

async function start(test: Test, count: number, env: Record<string, string> = {}) {
  const valkey = await startValkey(test)
  const admission = { mode: 'reserve', overshootPercent }
  const owner = { groups: ['team'] }
  const replicas = await startReplicas(test, {
    count,
    resources: (backendUrl) => [
      ...models(backendUrl),
      meter,
      subscription('held', owner, { 'llm/sim': [[limit, '1m']] }, { admission }),
      subscription('counted', owner, { 'llm/sim': [[limit, '1m']] }),
    ],
    tokens: users.map((user, i) => `token-${user},${user},${i},team`),
    env: { REDIS_URL: valkey.url, METER_PATHS: 'chat,messages', ...env },
  })
  return { valkey, replicas }
}

async function keysOf({ url }: Replicas, name: string): Promise<readonly string[]> {
  return Promise.all(
    users.map(async (user) => {
      const response = await fetch(`${url}/v1/api-keys`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer token-${user}` },
        body: JSON.stringify({ name: 'soak', subscription: name }),
      })
      return ((await response.json()) as { key: string }).key
    }),
  )
}

const random = createRandom()

function streams({ url }: Replicas, keys: readonly string[], forMs: number) {
  return runStreams({
    ...{ url, keys, atOnce: 15, forMs, words: [300, 1_500], takesMs: [5_000, 20_000] },
    ...{ hangUps: 10, random },
  })
}

function ask({ url }: Replicas, key: string): Promise<Response> {
  return fetch(`${url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model: 'sim',
      max_tokens: 10,
      messages: [{ role: 'user', content: 'Hi' }],
    }),
  })
}

t.test('windows of a minute stay within the bound', { skip }, async (t) => {
  const { replicas } = await start(t, 2)
  const [held, counted] = await Promise.all([keysOf(replicas, 'held'), keysOf(replicas, 'counted')])
  const result = await streams(replicas, held, 130_000)
  t.comment(`reserve: ${JSON.stringify(result)}, bound ${promised}, seed ${random.seed}`)
  t.ok(result.fullest <= promised, `${result.fullest} tokens in one window`)
  const beside = await streams(replicas, counted, 130_000)
  t.comment(`count: ${JSON.stringify(beside)}`)
  t.ok(beside.fullest > promised, `${beside.fullest} tokens in one window without holds`)
})

t.test('also while a process is killed and Redis hangs', { skip }, async (t) => {
  const { valkey, replicas } = await start(t, 4, { ON_COUNTER_LOSS: 'deny' })
  const keys = await keysOf(replicas, 'held')
  const running = streams(replicas, keys, 100_000)
  const [first, second] = replicas.all
  await delay(10_000)
  await first?.end('SIGKILL')
  await delay(10_000)
  await first?.start()
  valkey.freeze()
  await delay(5_000)
  valkey.thaw()
  await delay(10_000)
  await second?.end('SIGKILL')
  const result = await running
  t.comment(`${JSON.stringify(result)}, bound ${promised}, seed ${random.seed}`)
  t.ok(result.fullest <= promised, `${result.fullest} tokens in one window`)
  // What the killed processes did not release ends with its window.
  for (const key of keys) {
    const isAdmitted = async () => (await ask(replicas, key)).status === 200
    await poll(isAdmitted, 'the next window is free', 90_000)
  }
})
