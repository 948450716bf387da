/** Streams that reserve, while Redis, a process and then Envoy are killed: what is charged, and what stays held. */

import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { holdLeaseMs } from '../../../src/ratelimit/rules/hold.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { meter } from '../../support/gateway.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'
import { type Replicas, startReplicas } from '../../support/replicas.ts'
import { runStreams } from '../../support/stream-load.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../../support/valkey.ts'

const users = ['user-1', 'user-2', 'user-3', 'user-4']
const names = ['held', 'counted'] as const
const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
/** For the script that ends what is over. */
const slackMs = 15_000
const random = createRandom()

function call({ url }: Pick<Replicas, 'url'>, path: string, credential: string, body?: object) {
  return fetch(url + path, {
    method: body ? 'POST' : 'GET',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${credential}` },
    ...(body && { body: JSON.stringify(body) }),
  })
}

async function mint(replicas: Replicas, user: string, name: string): Promise<string> {
  const asked = { name: 'soak', subscription: name }
  const minted = await call(replicas, '/v1/api-keys', `token-${user}`, asked)
  return ((await minted.json()) as { key: string }).key
}

t.test('killed parts lose neither usage nor room', { skip }, async (t) => {
  const valkey = await startValkey(t, ['--appendonly', 'yes', '--appendfsync', 'always'])
  const limits = { 'llm/sim': [[10_000_000, '1h']] } as const
  const output = { usageInEveryChunk: true, maxTokens: 20_000 }
  const owner = { groups: ['team'] }
  const replicas = await startReplicas(t, {
    count: 2,
    resources: (backendUrl) => [
      modelRef('sim', { backendUrl, output }),
      accessPolicy('open', ['llm/sim'], owner),
      subscription('held', owner, limits, { admission: { mode: 'reserve', charge: 'end' } }),
      subscription('counted', owner, limits),
      meter,
    ],
    tokens: users.map((user, i) => `token-${user},${user},${i},team`),
    env: { REDIS_URL: valkey.url, USAGE_JOURNAL: `${temporaryFolder(t)}/usage.jsonl` },
    adjustEnvoy: (bootstrap) =>
      bootstrap.replace(/("access_log_flush_interval":\s*)"10s"/, '$1"1s"'),
  })
  const { model, envoy } = replicas
  const keys = await Promise.all(
    users.flatMap((user) => names.map((name) => mint(replicas, user, name))),
  )
  const load = (forMs: number) =>
    runStreams({
      ...{ url: replicas.url, keys, atOnce: 5, forMs, words: [100, 400], takesMs: [5_000, 15_000] },
      ...{ hangUps: 10, random, operation: 'chat' },
    })
  const charged = async () => {
    let sum = 0
    for (const key of keys) {
      const answer = await call(replicas, '/v1/limits', key)
      const { data } = (await answer.json()) as { data: readonly { used: number }[] }
      sum += data[0]?.used ?? 0
    }
    return sum
  }
  const produced = async () => (await model.tally()).totalTokens
  const isIdle = async () => (await model.tally()).open === 0
  /** Holds in Redis, those whose lease is over included. */
  const leases = async () => {
    let count = 0
    for (const name of await valkey.client.keys('*leases*')) {
      count += await valkey.client.zcard(name)
    }
    return count
  }

  const running = load(40_000)
  await delay(8_000)
  await valkey.kill()
  await delay(1_000)
  await valkey.start()
  await delay(8_000)
  await replicas.all[0]?.end('SIGKILL')
  await delay(3_000)
  await replicas.all[0]?.start()
  const result = await running
  await poll(isIdle, 'all streams have ended', 30_000)
  t.comment(`${JSON.stringify(result)}, seed ${random.seed}`)
  t.ok(result.hungUp > 0 && result.allowed > 50, `${result.allowed} streams`)
  // The model counts a token before it is sent: the last of a stream that was hung up on may have stayed there.
  const missing = async () => (await produced()) - (await charged())
  const isCharged = async () => (await missing()) >= 0 && (await missing()) <= result.hungUp
  await poll(isCharged, 'charged is what the model reports', 60_000).catch(() => {})
  t.comment(`${await charged()} tokens charged, ${await produced()} produced`)
  t.ok(await isCharged(), `${await missing()} tokens are missing, ${result.hungUp} hung up`)
  await poll(async () => (await leases()) === 0, 'nothing is held', holdLeaseMs + slackMs).catch(
    () => {},
  )
  t.equal(await leases(), 0, 'nothing is held')

  const doomed = load(15_000)
  await delay(10_000)
  const [inProgress, held] = [(await model.tally()).open, await leases()]
  process.kill(envoy.pid, 'SIGKILL')
  await doomed
  await poll(isIdle, 'the model has noticed', 30_000)
  t.ok(held > 10, `${held} held, ${inProgress} in progress when Envoy was killed`)
  t.comment(`${await leases()} held after its end`)
  await delay(holdLeaseMs)
  // Each script ends what is over; nobody else asks without an Envoy.
  const url = `http://${replicas.all[0]?.api}`
  const isFree = async () => {
    for (const user of users) {
      await call({ url }, '/v1/explain', `token-${user}`, {
        model: 'llm/sim',
        subscription: 'held',
      })
    }
    return (await leases()) === 0
  }
  await poll(isFree, 'nothing is held', slackMs).catch(() => {})
  t.equal(await leases(), 0, 'nothing is held a minute after the kill')
})
