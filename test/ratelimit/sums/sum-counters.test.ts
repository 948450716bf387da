import root, { test } from 'tap'
import { createCounters } from '../../../src/ratelimit/counters.ts'
import { createMemoryHolds } from '../../../src/ratelimit/holds/memory.ts'
import { noTokens } from '../../../src/ratelimit/rules/hold.ts'
import { startCluster } from '../../support/cluster.ts'
import { type CountingGateway, startCountingGateway } from '../../support/counting-gateway.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { type CounterWorld, testCounterStore } from './counter-store.contract.ts'

async function createWorld(url?: string): Promise<CounterWorld> {
  // Time stands still unless a test advances it.
  let time = Date.now()
  const now = () => time
  const all: CountingGateway[] = []
  for (const gateway of url === undefined ? ['one'] : ['one', 'other']) {
    all.push(await startCountingGateway({ gateway, url, now, all }))
  }
  const [one, other = one] = all as [CountingGateway, CountingGateway?]
  return {
    ...{ counters: one.counters, holds: one.holds, now },
    other: other.counters,
    log: (counters, amount, at = now()) => one.log({ at, amount, counters }),
    advance(ms) {
      time += ms
    },
    async close() {
      for (const each of all) await each.close()
    },
  }
}

testCounterStore('alone', () => createWorld())

if (!skipValkey) {
  let urls: readonly string[] = []
  let servers: readonly RunningValkey[] = []
  root.before(async () => {
    const server = await startValkey(root)
    const nodes = await startCluster(root)
    urls = [server.url, `redis+cluster://127.0.0.1:${nodes[0]?.port}`]
    servers = [server, ...nodes]
  })
  for (const [i, name] of ['a server', 'a Cluster'].entries()) {
    testCounterStore(name, async () => {
      for (const { client } of servers) await client.flushall()
      return createWorld(urls[i])
    })
  }
}

test('alone, a hold knows the line that was just written', async (t) => {
  const world = await createWorld()
  t.teardown(() => world.close())
  const counter = { key: 'basic\nllm/small\nrequests-60000\na', owner: 'a', window: { ms: 60_000 } }
  const asked = { ...noTokens, requestCounters: [{ ...counter, limit: 3 }] }
  for (let i = 0; i < 3; i += 1) {
    t.match(await world.holds.hold(asked, world.now()), { outcome: 'held', windows: [{ used: i }] })
    world.log([counter], 1)
  }
  t.match(await world.holds.hold(asked, world.now()), { outcome: 'spent' })
})

test('without a database a reset is refused', async (t) => {
  const counters = createCounters({
    running: { read: () => [], readFresh: async () => [], reset: () => t.fail('it is done') },
    holds: createMemoryHolds(() => []),
    resets: undefined,
  })
  const counter = { key: 'a', owner: 'a', window: { ms: 60_000 } }
  await t.rejects(counters.reset([counter], Date.now()), { code: 'store_unavailable' })
})
