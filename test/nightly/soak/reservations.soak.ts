/**
 * Windows of a minute, four users, 60 streams of 5 to 20 s, one in ten hung up on; crashes meanwhile. What the
 * windows were charged, and what the model server says it has produced, are within the bound that is printed.
 */

import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { OvershootBound } from '../../../src/cluster/rules/overshoot.ts'
import { subscription } from '../../support/documents.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { meter, models } from '../../support/gateway.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'
import { type Replicas, startReplicas } from '../../support/replicas.ts'
import { runStreams } from '../../support/stream-load.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../../support/valkey.ts'
import { type AdmittedRequest, accountWindows, sumOf } from '../../support/window-accounts.ts'

const limit = 20_000
const overshootPercent = 25
const users = ['user-1', 'user-2', 'user-3', 'user-4']
const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')

async function start(test: Test, count: number, env: Record<string, string> = {}) {
  const valkey = await startValkey(test)
  const admission = { mode: 'reserve', overshootPercent }
  const owner = { groups: ['team'] }
  const journal = `${temporaryFolder(test)}/usage.jsonl`
  const replicas = await startReplicas(test, {
    count,
    resources: (backendUrl) => [
      ...models(backendUrl),
      meter,
      subscription('held', owner, { 'llm/sim': [[limit, '1m']] }, { admission }),
      subscription('counted', owner, { 'llm/sim': [[limit, '1m']] }),
    ],
    tokens: users.map((user, i) => `token-${user},${user},${i},team`),
    env: { REDIS_URL: valkey.url, METER_PATHS: 'chat,messages', USAGE_JOURNAL: journal, ...env },
  })
  const [first] = replicas.all
  const listed = await fetch(`http://${first?.internal}/internal/v1/resources`)
  const { bounds } = (await listed.json()) as { bounds: readonly OvershootBound[] }
  const beyond = bounds.find(({ subscription }) => subscription === 'held')?.tokens
  return { valkey, replicas, journal, promised: limit + (beyond ?? Number.NaN) }
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

type Started = Awaited<ReturnType<typeof start>>

/** What clients have seen, and what each window was charged and has produced. */
async function stream({ replicas, journal }: Started, keys: readonly string[], forMs: number) {
  const admitted: AdmittedRequest[] = []
  const loaded = await runStreams({
    ...{
      url: replicas.url,
      keys,
      atOnce: 15,
      forMs,
      words: [300, 1_500],
      takesMs: [5_000, 20_000],
    },
    ...{ hangUps: 10, random, onAdmitted: (request) => admitted.push(request) },
  })
  const windows = await accountWindows(admitted, journal, replicas.model)
  return { loaded, windows: [...windows.values()] }
}

type Streamed = Awaited<ReturnType<typeof stream>>

function show(t: Test, name: string, { loaded, windows }: Streamed, promised: number): void {
  const [fullest] = windows.toSorted((a, b) => b.produced - a.produced)
  const { charged, produced, unreported, exceeded } = sumOf(windows)
  t.comment(
    `${name}: ${JSON.stringify(loaded)}, limit ${limit}, bound ${promised}, seed ${random.seed}`,
  )
  t.comment(
    `${name}: of ${produced} tokens that the model server has produced ${charged} were charged; ended ` +
      `unreported (U): ${unreported}, beyond a ceiling (X): ${exceeded}; the fullest window: ${JSON.stringify(fullest)}`,
  )
}

function checkBound(t: Test, { windows }: Streamed, promised: number): void {
  for (const { charged, produced, unreported, exceeded } of windows) {
    t.ok(charged <= promised, `${charged} tokens charged in one window`)
    const most = promised + unreported + exceeded
    t.ok(produced <= most, `${produced} tokens produced in one window, ${most} at most`)
  }
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
  const started = await start(t, 2)
  const { replicas, promised } = started
  const [held, counted] = await Promise.all([keysOf(replicas, 'held'), keysOf(replicas, 'counted')])
  const result = await stream(started, held, 130_000)
  show(t, 'reserve', result, promised)
  checkBound(t, result, promised)
  const beside = await stream(started, counted, 130_000)
  show(t, 'count', beside, promised)
  const most = Math.max(...beside.windows.map(({ produced }) => produced))
  t.comment(`count: ${Math.round((100 * most) / limit - 100)} % beyond the limit`)
  t.ok(most > promised, `${most} tokens in one window without holds`)
})

t.test('also while a process is killed and Redis hangs', { skip }, async (t) => {
  const started = await start(t, 4, { ON_COUNTER_LOSS: 'deny' })
  const { valkey, replicas, promised } = started
  const keys = await keysOf(replicas, 'held')
  const running = stream(started, keys, 100_000)
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
  show(t, 'reserve', result, promised)
  checkBound(t, result, promised)
  // What the killed processes did not release ends with its window.
  for (const key of keys) {
    const isAdmitted = async () => (await ask(replicas, key)).status === 200
    await poll(isAdmitted, 'the next window is free', 90_000)
  }
})
