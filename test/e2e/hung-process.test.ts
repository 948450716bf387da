import t, { type Test } from 'tap'
import { readStat } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { chatPath, models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { type Replica, startReplicas } from '../support/replicas.ts'
import { type LoadRequest, startLoad, tally } from '../support/steady-load.ts'
import { lasting } from '../support/window-ends.ts'

const skip = envoyPath() === undefined && 'no Envoy'

interface Behind {
  readonly first: Replica
  /** Creates a key of this subscription. */
  mint(subscription: string): Promise<string>
  /** A chat call; `list` is a call to the API. */
  chat(key: string, sim?: object): LoadRequest
  readonly list: LoadRequest
  /** Sends a request; returns the status. */
  send(request: LoadRequest): Promise<number>
  /** Reads one of Envoy's statistics for a cluster. */
  figure(name: string, cluster?: string): Promise<number>
}

/** Starts this many processes behind one Envoy. */
async function start(t: Test, count: number): Promise<Behind> {
  const { url, all, envoy } = await startReplicas(t, {
    count,
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 1e9, one: 1 })],
    tokens: [`token-ann,${lasting('ann')},1,team`],
  })
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  return {
    first: all[0] as Replica,
    async mint(subscription) {
      const body = JSON.stringify({ name: 'test', subscription })
      const answer = await fetch(`${url}/v1/api-keys`, { method: 'POST', headers, body })
      return ((await answer.json()) as { key: string }).key
    },
    chat: (key, sim = {}) => ({
      url: url + chatPath,
      headers: { ...headers, authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: 'sim', messages: [], sim }),
    }),
    list: { url: `${url}/v1/subscriptions`, method: 'GET', headers },
    async send({ url, headers = {}, body = '' }) {
      return (await fetch(url, { method: 'POST', headers, body })).status
    },
    figure: (name, cluster = 'tollgate') => readStat(envoy, `cluster.${cluster}.${name}`),
  }
}

t.test('one of two processes hangs', { skip }, async (t) => {
  const { first, mint, chat, list, send, figure } = await start(t, 2)
  const [plenty, one] = [await mint('plenty'), await mint('one')]
  // By now each worker thread of Envoy has opened its log stream to one of the processes.
  for (let i = 0; i < 20; i += 1) t.equal(await send(chat(plenty)), 200)

  const load = startLoad(100, () => chat(plenty))
  first.signal('SIGSTOP')
  const hungAt = performance.now()
  await t.test('Envoy removes it, and every request succeeds', async (t) => {
    for (const cluster of ['tollgate', 'api']) {
      await poll(
        async () => (await figure('membership_healthy', cluster)) === 1,
        `${cluster} has one healthy process`,
      )
    }
    t.comment(`left out after ${Math.round(performance.now() - hungAt)} ms`)
    const shots = await load.stop()
    t.strictSame(tally(shots), { 200: shots.length })
    t.ok((await figure('upstream_rq_retry')) > 0, 'requests were retried at the other process')
  })
  await t.test('it gets no more requests', async (t) => {
    const load = startLoad(100, (n) => (n % 2 === 0 ? chat(plenty) : list))
    await poll(() => load.shots.length > 100, 'a hundred responses')
    const shots = await load.stop()
    t.strictSame(tally(shots), { 200: shots.length })
  })
  await t.test('the other process gets the usage', async (t) => {
    t.equal(await send(chat(one, { totalTokens: 1 })), 200)
    await poll(async () => (await send(chat(one))) === 429, 'the limit is reached')
  })
  await t.test('it gets requests again once it continues', async () => {
    first.signal('SIGCONT')
    await poll(async () => (await figure('membership_healthy')) === 2, 'both processes are healthy')
  })
})

t.test('the only process still gets requests while it hangs', { skip }, async (t) => {
  const { first, mint, chat, send, figure } = await start(t, 1)
  const key = await mint('plenty')
  t.equal(await send(chat(key)), 200)
  first.signal('SIGSTOP')
  await poll(async () => (await figure('membership_healthy')) === 0, 'the process is unhealthy')
  t.equal(await send(chat(key)), 503, '503 after two seconds')
  const asked = await figure('upstream_rq_total')
  const answer = send(chat(key))
  await poll(async () => (await figure('upstream_rq_total')) > asked, 'the request was sent')
  first.signal('SIGCONT')
  t.equal(await answer, 200, 'answered once the process continues')
})
