import { readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Test, test } from 'tap'
import { subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { meter, models } from '../support/gateway.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'
import { lasting } from '../support/window-ends.ts'

const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
const limits = { 'llm/sim': [[3_000, '1h']] } as const
const plenty = 1_000_000_000
/** One after another, by a client whose answers say what the ones before have used. */
const requestCount = Number(process.env.REQUESTS ?? 300)

/** A Subscription of which all users have so many tokens together. */
function pooled(name: string, per: string) {
  const document = subscription(name, { groups: ['team'] }, { 'llm/sim': [[plenty, '24h']] })
  const limits = [{ name: 'all', per, of: 'tokens', limit: 3_000, window: '8784h' }]
  return { ...document, spec: { ...document.spec, limits } }
}

async function start(t: Test) {
  const { url: redis } = await startValkey(t)
  const { url, all, model, journal } = await startReplicas(t, {
    count: 2,
    // A file is renamed each second.
    env: { REDIS_URL: redis, USAGE_JOURNAL_BYTES: '4096' },
    resources: (backendUrl) => [
      ...models(backendUrl),
      meter,
      ...Object.entries({
        reserves: { admission: { mode: 'reserve' } },
        counts: {},
        'one-at-once': { ofModels: { concurrency: 1 } },
      }).map(([name, more]) => subscription(name, { groups: ['team'] }, limits, more)),
      subscription('plenty', { groups: ['team'] }, { 'llm/sim': [[plenty, '24h']] }),
      pooled('pool', 'subscription'),
      pooled('group-pool', 'group'),
    ],
    tokens: Array.from({ length: 4 }, (_, i) => `token-u${i},${lasting(`u${i}`)},${i},team`),
  })
  const post = (path: string, credential: string, body: object) =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${credential}` },
      body: JSON.stringify(body),
    })
  async function mint(name: string, user: number): Promise<string> {
    const minted = await post('/v1/api-keys', `token-u${user}`, { name, subscription: name })
    return ((await minted.json()) as { key: string }).key
  }
  const ask = (key: string, words: number, more = {}) =>
    post('/v1/chat/completions', key, { model: 'sim', messages: [], sim: { words }, ...more })
  // So long that Check decides it, by whichever process.
  const long = { user: 'x'.repeat(2 ** 20) }
  const renamed = () => readdirSync(dirname(journal)).filter((name) => /jsonl\.\d{13}$/.test(name))
  /**
   * Of so many requests with two keys of one user, each after the last answer, and as many more as it takes until a file
   * was renamed, how many did not know what the ones before have used.
   */
  async function countLate(requests: number, user: number): Promise<number> {
    const [one, other] = [await mint('plenty', user), await mint('plenty', user)]
    let late = 0
    const isOver = (i: number) => i >= requests && (renamed().length > 0 || i >= 20 * requests)
    for (let used = 0, i = 0; !isOver(i); i += 1) {
      const words = 1 + ((i * 37) % 100)
      const answer = await ask(i % 5 === 2 ? other : one, words, i % 23 === 7 ? long : {})
      await answer.arrayBuffer()
      const left = Number(answer.headers.get('x-ratelimit-remaining-tokens'))
      if (left !== plenty - used) late += 1
      used += words
    }
    return late
  }
  /** Sends requests, each after the last answer, until a limit refuses one; returns their tokens. */
  async function spend(name: string, user: number) {
    const key = await mint(name, user)
    for (let used = 0, i = 0; ; i += 1) {
      const words = 30 + ((i * 37) % 100)
      const answer = await ask(key, words)
      const { error } = (await answer.json()) as { error?: { message: string } }
      if (error !== undefined)
        return { used, error, shouldRetry: answer.headers.get('x-should-retry') }
      used += words
    }
  }
  /** The same by users in turn, who draw on one pool; how often one did not know what the others had used. */
  async function spendTogether(name: string, users: readonly number[]) {
    const keys = await Promise.all(users.map((user) => mint(name, user)))
    let late = 0
    for (let used = 0, i = 0; ; i += 1) {
      const words = 30 + ((i * 37) % 100)
      const answer = await ask(keys[i % keys.length] as string, words)
      const left = / "all";r=(\d+)/.exec(answer.headers.get('ratelimit') ?? '')
      if (Number(left?.[1]) !== Math.max(0, 3_000 - used)) late += 1
      const { error } = (await answer.json()) as { error?: { message: string } }
      if (error !== undefined) return { used, error, late }
      used += words
    }
  }
  /** The sums of these counters over all processes. */
  async function told(...names: readonly string[]): Promise<readonly number[]> {
    const scrapes = await Promise.all(
      all.map(async ({ metrics }) =>
        readScrape(await (await fetch(`http://${metrics}/metrics`)).text()),
      ),
    )
    return names.map((name) => {
      const values = scrapes.flatMap((scrape) => scrape.samples(name).map(({ value }) => value))
      return values.reduce((sum, value) => sum + value, 0)
    })
  }
  return { spend, spendTogether, countLate, told, model, all, renamed }
}

test('a client that waits for each answer can use up its limit', { skip }, async (t) => {
  const { spend, spendTogether, countLate, told, model, all, renamed } = await start(t)
  t.equal(await countLate(requestCount, 3), 0, `of ${requestCount} requests`)
  t.ok(renamed().length > 0, 'files were renamed meanwhile')
  for (const [user, name] of ['counts', 'reserves', 'one-at-once'].entries()) {
    const { used, error, shouldRetry } = await spend(name, user)
    t.ok(used >= 3_000, `${name}: ${used} tokens, then ${error.message}`)
    t.equal(shouldRetry === 'true', false, name)
  }
  for (const name of ['pool', 'group-pool']) {
    const { used, error, late } = await spendTogether(name, [0, 1, 2])
    t.ok(used >= 3_000 && used < 3_130, `${name}: ${used} tokens, then ${error.message}`)
    t.equal(late, 0, 'each knew what the others had used')
  }
  const { requests: byPath, totalTokens } = await model.tally()
  const requests = byPath['/v1/chat/completions'] ?? 0
  const figures = [
    ['authorized_hits_total', totalTokens],
    ['authorized_calls_total', requests],
    ['tollgate_model_tokens_total', totalTokens],
    ['tollgate_model_responses_total', requests],
    ['tollgate_model_duration_seconds_count', requests],
    ['authorized_request_duration_seconds_count', requests],
  ] as const
  await poll(async () => (await told('authorized_hits_total'))[0] === totalTokens, 'all is told')
  t.strictSame(
    await told(...figures.map(([name]) => name)),
    figures.map(([, value]) => value),
    'by two processes, once',
  )
  // The other one goes on where the writer has left.
  await all[0]?.end('SIGTERM')
  await all[0]?.start()
  const [before = 0] = await told('authorized_hits_total')
  const { used } = await spend('counts', 0)
  t.equal(used, 0, 'the limit is still reached')
  t.equal((await told('authorized_hits_total'))[0], before, 'nothing is told again')
})
