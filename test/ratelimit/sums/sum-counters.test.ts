import root, { test } from 'tap'
import { createCounters } from '../../../src/ratelimit/counters.ts'
import { createMemoryHolds } from '../../../src/ratelimit/holds/memory-holds.ts'
import type { Counter } from '../../../src/ratelimit/rules/counter.ts'
import { emptyHold } from '../../../src/ratelimit/rules/hold.ts'
import { startCluster } from '../../support/cluster.ts'
import { type CountingGateway, startCountingGateway } from '../../support/counting-gateway.ts'
import { poll } from '../../support/poll.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { lasting } from '../../support/window-ends.ts'
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
  const asked = { ...emptyHold, requestCounters: [{ ...counter, limit: 3 }] }
  for (let i = 0; i < 3; i += 1) {
    t.match(await world.holds.hold(asked, world.now()), { outcome: 'held', windows: [{ used: i }] })
    world.log([counter], 1)
  }
  t.match(await world.holds.hold(asked, world.now()), { outcome: 'spent' })
})

test('a node of a Cluster that is away is an outage of its counters alone', {
  skip: skipValkey,
}, async (t) => {
  const nodes = await startCluster(t)
  const url = `redis+cluster://127.0.0.1:${nodes[1]?.port}`
  const start = (gateway: string, onLoss: 'allow' | 'deny') =>
    startCountingGateway({ gateway, url, onLoss })
  const all = await Promise.all([start('1', 'allow'), start('2', 'allow'), start('3', 'deny')])
  t.teardown(() => Promise.all(all.map((each) => each.close())))
  const [one, other, denying] = all
  await nodes[0]?.kill()
  await poll(() => all.every(({ running }) => running.isUnavailable), 'the node is missed')
  const counters = Array.from({ length: 60 }, (_, i): Counter => {
    const user = `user-${i}`
    return {
      key: `basic\nllm/small\n3600000\n${user}`,
      owner: lasting(user),
      window: { ms: 3_600_000 },
    }
  })
  other.log({ at: Date.now(), amount: 5, counters })
  const stored = async () => {
    const keys = await Promise.all(nodes.slice(1).map(({ client }) => client.keys('*user-*')))
    return keys.flat().length
  }
  await poll(async () => (await stored()) > 20, 'the others have their sums')
  const there = await stored()
  const seenBy = ({ running }: CountingGateway) =>
    Promise.all(
      counters.map(async (counter) => {
        const read = async () => (await running.read([counter], Date.now()))[0]?.used
        return await read().catch(({ code }) => code)
      }),
    )
  const seen = await seenBy(one)
  t.equal(seen.filter((used) => used === 5).length, there)
  t.equal(seen.filter((used) => used === 0).length, counters.length - there)
  const orRefused = seen.map((used) => used || 'counters_unavailable')
  t.strictSame(await seenBy(denying), orRefused)
  const held = await Promise.allSettled(
    counters.map(async (counter) => {
      const windowed = { ...counter, window: { ms: 60_000 } }
      const asked = { ...emptyHold, id: counter.key, requestCounters: [{ ...windowed, limit: 9 }] }
      return (await denying.holds.hold(asked, Date.now())).outcome
    }),
  )
  t.equal(held.filter((each) => each.status === 'fulfilled').length, there)
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
