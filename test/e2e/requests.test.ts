/** Limits on requests and on requests in progress, through a real Envoy. */

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { subscription, type WrittenDocument } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { chatPath, models } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { type Replicas, startReplicas } from '../support/replicas.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'
import { lasting } from '../support/window-ends.ts'

const skip = (envoyPath() === undefined && 'no Envoy') || skipValkey
const concurrency = 5
const most = 40
/** Long enough for whatever is done while they run; they are aborted in the end. */
const endless = { words: 100_000, chunkDelayMs: 20 }

function resources(backendUrl: string): readonly WrittenDocument[] {
  const owner = { groups: ['team'] }
  const limits = { 'llm/sim': [[1_000_000_000, '1h']] } as const
  const rates = { requestRateLimits: [{ limit: most, window: '1h' }] }
  return [
    ...models(backendUrl),
    subscription('parallel', owner, limits, { ofModels: { concurrency } }),
    subscription('rated', owner, limits, { ofModels: { ...rates, concurrency: 1_000 } }),
    subscription('reserving', owner, limits, {
      admission: { mode: 'reserve' },
      ofModels: { ...rates, concurrency },
    }),
  ]
}

interface World extends Replicas {
  /** A new user's key of this subscription. */
  mint(subscription: string): Promise<string>
  /** A chat call; `sim` for the model server. */
  chat(
    key: string,
    sim?: object,
    init?: RequestInit & { readonly path?: string },
  ): Promise<Response>
  /** How many requests of the key are in progress. */
  open(key: string): Promise<number>
}

async function start(t: Test): Promise<World> {
  const valkey = await startValkey(t)
  const [adminPort = 0] = await freePorts(1)
  const replicas = await startReplicas(t, {
    ...{ count: 2, resources, envoyAdminPort: adminPort },
    tokens: Array.from({ length: 30 }, (_, i) => `token-${i},${lasting(`user-${i}`)},${i},team`),
    env: {
      REDIS_URL: valkey.url,
      USAGE_JOURNAL: join(mkdtempSync(join(tmpdir(), 'requests-')), 'usage.jsonl'),
      ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}`,
    },
  })
  const { url } = replicas
  const at = (key: string) => ({
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
  })
  let users = 0
  return {
    ...replicas,
    async mint(name) {
      const body = JSON.stringify({ name: 'test', subscription: name })
      const headers = at(`token-${users++}`)
      const answer = await fetch(`${url}/v1/api-keys`, { method: 'POST', headers, body })
      return ((await answer.json()) as { key: string }).key
    },
    chat: (key, sim = {}, { path = chatPath, ...init } = {}) =>
      fetch(url + path, {
        ...{ method: 'POST', headers: at(key) },
        body: JSON.stringify({ model: 'sim', messages: [], stream: 'words' in sim, sim }),
        ...init,
      }),
    async open(key) {
      const answer = await fetch(`${url}/v1/limits`, { headers: at(key) })
      const { data } = (await answer.json()) as { data: { kind: string; used: number }[] }
      return data.find(({ kind }) => kind === 'concurrency')?.used ?? Number.NaN
    },
  }
}

/** Twenty streams at once, then until as many as the concurrency are open; `end` hangs up. */
async function burst(t: Test, { chat }: World, key: string) {
  const hangUp = new AbortController()
  const stream = () => chat(key, endless, { signal: hangUp.signal })
  const answers = await Promise.all(Array.from({ length: 20 }, stream))
  let open = answers.filter(({ status }) => status === 200).length
  t.ok(open > 0 && open <= concurrency, `${open} are let through`)
  // A machine that is too busy may have lost some of their Checks.
  await poll(async () => {
    if (open < concurrency && (await stream()).status === 200) open += 1
    return open >= concurrency
  }, 'the concurrency is reached')
  const refused = await stream()
  t.equal(refused.status, 429)
  t.equal(refused.headers.get('x-should-retry'), 'true')
  const wait = Number(refused.headers.get('retry-after'))
  t.ok(wait >= 1 && wait <= 30, `${wait} s`)
  t.match(await refused.json(), { error: { code: 'concurrency_limit_exceeded' } })
  return { end: () => hangUp.abort() }
}

root.test('requests of a user over two processes', { skip }, async (t) => {
  const world = await start(t as Test)
  const { mint, chat, open, all } = world

  await t.test('as many streams as the concurrency are in progress', async (t) => {
    const key = await mint('parallel')
    const { end } = await burst(t as Test, world, key)
    t.equal(await open(key), concurrency)
    end()
    await poll(async () => (await open(key)) === 0, 'streams that were hung up have ended')
    t.equal((await chat(key)).status, 200)
    await poll(async () => (await open(key)) === 0, 'the others have ended, too')
  })

  await t.test('requests are counted exactly', async (t) => {
    const key = await mint('rated')
    const answers: Response[] = []
    const seen = (code: number) => answers.filter(({ status }) => status === code)
    const client = async () => {
      while (seen(429).length === 0) answers.push(await chat(key, { totalTokens: 1 }))
    }
    await Promise.all(Array.from({ length: 8 }, client))
    const allowed = seen(200).length
    // Of those that a busy machine has failed nobody knows whether they were counted.
    const failed = answers.length - allowed - seen(429).length
    t.ok(allowed <= most && allowed + failed >= most, `${allowed} of ${answers.length}`)
    const [refused] = seen(429)
    t.match(await refused?.json(), {
      error: { code: 'request_limit_exceeded', type: 'usage_limit_reached' },
    })
    t.equal(refused?.headers.get('x-ratelimit-limit-requests'), String(most))
    t.equal(refused?.headers.get('x-ratelimit-remaining-requests'), '0')
  })

  await t.test('clients that go at once leave nothing behind', async (t) => {
    const key = await mint('parallel')
    for (let i = 0; i < 60; i += 1) {
      const signal = AbortSignal.timeout(i % 12)
      await chat(key, endless, { signal }).catch(() => undefined)
    }
    await poll(async () => (await open(key)) === 0, 'all have ended')
    t.pass()
  })

  await t.test('calls that are not counted are in progress, too', async (t) => {
    const key = await mint('parallel')
    const answer = await chat(key, {}, { path: '/llm/sim/v1/embeddings' })
    t.not(answer.status, 429)
    await answer.text()
    await poll(async () => (await open(key)) === 0, 'it has ended')
  })

  await t.test('with reservations all are taken together', async (t) => {
    const key = await mint('reserving')
    const { end } = await burst(t as Test, world, key)
    end()
    await poll(async () => (await open(key)) === 0, 'they have ended')
    const { headers } = await chat(key)
    const left = Number(headers.get('x-ratelimit-remaining-requests'))
    t.ok(left > 0 && left <= most - concurrency - 1, `${left} requests are left`)
    t.match(headers.get('ratelimit'), /"concurrency";r=4$/)
  })

  await t.test('a process is killed with streams in progress', async (t) => {
    const key = await mint('parallel')
    const { end } = await burst(t as Test, world, key)
    await all[0]?.end('SIGKILL')
    end()
    await poll(async () => (await open(key)) === 0, 'the journal has told that they ended', 30_000)
    t.equal((await chat(key)).status, 200)
  })
})
