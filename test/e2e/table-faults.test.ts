/** Whatever becomes of the table and of who writes it, nothing is allowed that Check would refuse. */

import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { everyProcessIsAsked } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { chatPath, models, subscriptions } from '../support/gateway.ts'
import { linesOf } from '../support/lines.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'
import { type Shot, startCallers, tally } from '../support/steady-load.ts'
import { fileFaults, tablePlaces } from '../support/table-faults.ts'
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const isLong = process.env.FAULTS === 'all'
/** Longer than any lease. */
const leaseMs = 1_500

let starting: ReturnType<typeof start> | undefined

/** For all tests: starting two processes takes as much CPU as most of them. */
function shared() {
  starting ??= start(root as unknown as Test)
  return starting
}

async function start(t: Test) {
  const proxies: TcpProxy[] = []
  const world = await startReplicas(t, {
    count: 2,
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 1e9 })],
    tokens: ['token-ann,ann,1,team'],
    async databaseFor(url) {
      const proxy = await startTcpProxy(t, Number(new URL(url).port))
      proxies.push(proxy)
      return proxy.through(url)
    },
  })
  const { url, all, journal, model } = world
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  const lines = linesOf(journal)
  const hits = () => lines.ended().filter(({ by }) => by === 'table').length

  async function mint(): Promise<{ key: string; id: string }> {
    const body = JSON.stringify({ name: 'one', subscription: 'plenty' })
    const answer = await fetch(`${url}/v1/api-keys`, { method: 'POST', headers, body })
    if (answer.status !== 201) throw new Error(`no key: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as { key: string; id: string }
  }
  async function revoke(id: string): Promise<string> {
    const answer = await fetch(`${url}/v1/api-keys/${id}`, { method: 'DELETE', headers })
    const { propagation } = (await answer.json()) as { propagation?: { state: string } }
    return propagation?.state ?? `${answer.status}`
  }
  const callOf = (key: string) => ({
    url: url + chatPath,
    headers: { ...headers, authorization: `Bearer ${key}` },
    body: '{"model":"sim","messages":[]}',
  })
  const statusOf = async (key: string): Promise<number> => {
    const { url: to, ...init } = callOf(key)
    const answer = await fetch(to, { method: 'POST', ...init })
    await answer.arrayBuffer()
    return answer.status
  }
  /** Waits until requests of this key are decided by the table. */
  async function isHit(key: string, after = 'the start'): Promise<void> {
    const ask = async () => {
      const before = hits()
      const status = await statusOf(key)
      return status === 200 && hits() > before
    }
    await poll(ask, 'the table decides', 20_000).catch(async (error: unknown) => {
      throw new Error(
        `after ${after}: ${error}:\n${(await scrapes()).flatMap(tableFigures).join('\n')}`,
      )
    })
  }
  const scrapes = () =>
    Promise.all(all.map(async ({ metrics }) => (await fetch(`http://${metrics}/metrics`)).text()))
  const tableFigures = (scrape: string) =>
    scrape.split('\n').filter((line) => line.startsWith('tollgate_table_'))
  /** How many tokens the gateway's writers have counted since they started. */
  async function counted(): Promise<number> {
    return (await scrapes())
      .flatMap((text) => readScrape(text).samples('authorized_hits_total'))
      .reduce((sum, { value }) => sum + value, 0)
  }
  return { ...world, proxies, hits, mint, revoke, callOf, statusOf, isHit, counted, model }
}

/** All of them take minutes (test/nightly/soak/table-faults.soak.ts). */
const few = [
  ...['both deleted', 'the table cut in a bucket', 'lanes emptied'],
  ...['garbage in its place', 'a copy of itself', 'a pipe'],
]
const befallen = Object.entries(fileFaults).filter(([name]) => isLong || few.includes(name))

const besides200 = (shots: readonly Shot[]) => tally(shots.filter(({ status }) => status !== 200))

root.test('files of the table that something happens to', { skip }, async (t) => {
  const { journal, envoy, mint, revoke, callOf, statusOf, isHit, counted, model } = await shared()
  const places = tablePlaces(journal)
  const { key } = await mint()
  await isHit(key)
  for (const [name, befall] of befallen) {
    const { key: ended, id } = await mint()
    await isHit(ended)
    // Without pauses, as for long, it would be most of the work of the file.
    const load = startCallers(
      4,
      () => callOf(key),
      () => (isLong ? 0 : 10),
    )
    await delay(20)
    befall(places)
    const state = await revoke(id)
    if (state === 'confirmed') t.equal(await statusOf(ended), 401, `${name}: at once`)
    for (let i = 0; i < 10; i += 1) {
      await delay(30)
      if (state === 'confirmed') t.equal(await statusOf(ended), 401, name)
    }
    t.strictSame(besides200(await load.stop()), {}, `${name}: the others are served`)
    await isHit(key, name)
    t.equal(await statusOf(ended), 401, `${name}: afterwards`)
  }
  t.doesNotThrow(() => process.kill(envoy.pid, 0), 'Envoy lives')
  const { totalTokens } = await model.tally()
  await poll(async () => (await counted()) === totalTokens, 'all is counted, once').catch(() => {})
  t.equal(await counted(), totalTokens, 'all is counted, once')
})

root.test('who writes the table', { skip }, async (t) => {
  const world = await shared()
  const { all, envoy, proxies, hits, mint, revoke, callOf, statusOf, isHit } = world
  const [first, second] = all
  const { key } = await mint()
  await isHit(key)

  await t.test('a writer that hangs', async (t) => {
    first?.signal('SIGSTOP')
    await delay(leaseMs)
    const before = hits()
    const load = startCallers(2, () => callOf(key))
    await delay(500)
    t.strictSame(besides200(await load.stop()), {}, 'the other one decides')
    t.equal(hits(), before, 'its table is not used')
    const { key: ended, id } = await mint()
    await statusOf(ended)
    await revoke(id)
    await isHit(key)
    first?.signal('SIGCONT')
    for (let i = 0; i < 20; i += 1) {
      t.equal(await statusOf(ended), 401)
      await delay(20)
    }
    await everyProcessIsAsked(envoy)
  })

  await t.test('a writer that was killed', async (t) => {
    await second?.end('SIGKILL')
    await delay(leaseMs)
    t.equal(await statusOf(key), 200)
    await second?.start()
    await everyProcessIsAsked(envoy)
    await isHit(key)
  })

  await t.test('a service that is gone', async (t) => {
    await isHit(key)
    for (const replica of all) await replica.end('SIGKILL')
    await delay(leaseMs)
    t.equal(await statusOf(key), 503)
    for (const replica of all) await replica.start()
    await everyProcessIsAsked(envoy)
    await isHit(key)
  })

  await t.test('a service that ends', async (t) => {
    await isHit(key)
    for (const replica of all) await replica.end('SIGTERM')
    t.equal(await statusOf(key), 503, 'its table is closed at once')
    for (const replica of all) await replica.start()
    await everyProcessIsAsked(envoy)
    await isHit(key)
  })

  await t.test('all of it stopped for a while', async (t) => {
    const { key: ended, id } = await mint()
    await isHit(ended)
    const pids = [...all.map(({ pid }) => pid), envoy.pid]
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    await delay(2 * leaseMs)
    const asked = Array.from({ length: 8 }, () => statusOf(ended))
    process.kill(envoy.pid, 'SIGCONT')
    await delay(200)
    for (const pid of pids) process.kill(pid, 'SIGCONT')
    t.strictSame(
      (await Promise.all(asked)).filter((status) => status !== 200 && status !== 503),
      [],
    )
    await everyProcessIsAsked(envoy)
    await revoke(id)
    await poll(async () => (await statusOf(ended)) === 401, 'it is refused')
  })

  await t.test('a database that is out of reach', async (t) => {
    await isHit(key)
    for (const proxy of proxies) proxy.swallow(true)
    await delay(2 * leaseMs)
    const before = hits()
    t.equal(await statusOf(key), 200, 'Check still knows the key')
    t.equal(hits(), before, 'nothing is decided by a table whose revocations are not known')
    for (const proxy of proxies) {
      proxy.swallow(false)
      proxy.cut()
    }
    await isHit(key)
  })
})
