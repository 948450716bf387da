import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import type { Counter } from '../../../src/core/decision/counter.ts'
import { connectRedis } from '../../../src/store/counters/redis/connection.ts'
import { createRedisHolds, type RedisHolds } from '../../../src/store/holds/redis.ts'
import type { AskedHold } from '../../../src/store/holds.ts'
import { poll } from '../../support/poll.ts'
import { createReplica, redisKey } from '../../support/redis-world.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { type HoldWorld, testHoldStore } from './hold-store.contract.ts'

const longMs = 60_000
const shortLeaseMs = 2_500

async function holdsOf(url: string, leaseMs: number, timeoutMs?: number) {
  const connection = connectRedis(url, () => {}, timeoutMs)
  await connection.connected(5_000)
  const holds = createRedisHolds(connection.commands, { lease: leaseMs })
  const close = () => {
    void holds.stop(0)
    connection.close()
  }
  return { holds, close }
}

let valkey: RunningValkey

root.before(async () => {
  if (!skipValkey) valkey = await startValkey(root)
})

async function createWorld(): Promise<HoldWorld> {
  const stores = await Promise.all([1, 2].map(() => holdsOf(valkey.url, shortLeaseMs)))
  const [holds, other] = stores.map((each) => each.holds) as [RedisHolds, RedisHolds]
  return {
    ...{ holds, other, leaseMs: shortLeaseMs, shortMs: 1_000 },
    now: Date.now,
    use: async (counter: Required<Counter>, tokens: number) => {
      const key = redisKey(counter)
      if (tokens > 0) await valkey.client.incrby(key, tokens)
      if ((await valkey.client.pttl(key)) === -1) await valkey.client.pexpire(key, counter.windowMs)
    },
    // Faster than a poll: it is called thousands of times.
    async settled() {
      while (holds.waiting + other.waiting > 0) await delay(1)
    },
    advance: async (ms: number) => void (await delay(ms)),
    close: async () => {
      for (const each of stores) each.close()
    },
  }
}

if (!skipValkey) testHoldStore('Redis', createWorld)

function asked(id: string | undefined, limit: number, user: string): AskedHold {
  const key = `basic\nllm/small\n${longMs}\n${user}`
  return {
    id,
    counters: [{ key, windowMs: longMs, limit }],
    expected: {
      ...{ input: 100, inputVariance: 1, output: 100, outputVariance: 1 },
      ...{ floor: 200, beyondRoom: 200, isSeveral: false, least: 1, worst: 400 },
    },
    ...{ overshoot: 0.25, canCap: true, charge: 'admission' },
  }
}

root.test('parallel holds of four processes keep the bound', { skip: skipValkey }, async (t) => {
  const stores = await Promise.all([1, 2, 3, 4].map(() => holdsOf(valkey.url, longMs)))
  t.teardown(() => {
    for (const each of stores) each.close()
  })
  const answers = await Promise.all(
    Array.from({ length: 250 }, (_, i) =>
      stores[i % 4]?.holds.hold(asked(`burst ${i}`, 10_000, 'burst'), Date.now()),
    ),
  )
  const held = answers.filter((each) => each?.outcome === 'held')
  const ceilings = held.reduce((sum, each) => sum + 100 + (each?.cap ?? 0), 0)
  t.ok(held.length >= 20 && held.length <= 50, `${held.length} of 250 are admitted`)
  t.ok(ceilings <= 12_500, `their ceilings: ${ceilings}`)
  t.ok(answers.every((each) => each?.outcome !== 'spent'))
})

root.test('usage of the counters counts beside holds', { skip: skipValkey }, async (t) => {
  const { holds, close } = await holdsOf(valkey.url, longMs)
  t.teardown(close)
  const replica = await createReplica({ url: valkey.url })
  t.teardown(() => replica.close())
  const own = asked('used', 1_000, 'used')
  t.equal((await holds.hold(own, Date.now())).outcome, 'held')
  replica.counters.add(own.counters, 700, Date.now())
  await replica.flushed()
  holds.release(own.counters, 'used')
  await poll(() => holds.waiting === 0, 'it is released', 5_000)
  const [window] = (await holds.hold(asked(undefined, 1_000, 'used'), Date.now())).windows
  t.match(window, { used: 700 })
  t.equal(window?.held, undefined)
})

root.test('releases wait for a Redis that is away', { skip: skipValkey }, async (t: Test) => {
  const paused = await startValkey(t)
  const { holds, close } = await holdsOf(paused.url, longMs, 200)
  t.teardown(close)
  const own = asked('a', 10_000, 'away')
  t.equal((await holds.hold(own, Date.now())).outcome, 'held')
  paused.freeze()
  await t.rejects(async () => holds.hold(asked('b', 10_000, 'away'), Date.now()))
  holds.release(own.counters, 'a')
  await delay(300)
  t.equal(holds.waiting, 2, 'the unanswered hold is given back too')
  paused.thaw()
  await poll(() => holds.waiting === 0, 'they are released', 10_000)
  const [window] = (await holds.hold(asked(undefined, 10_000, 'away'), Date.now())).windows
  t.equal(window?.held, undefined)
})

root.test('four processes share requests and slots exactly', { skip: skipValkey }, async (t) => {
  const stores = await Promise.all([1, 2, 3, 4].map(() => holdsOf(valkey.url, longMs)))
  t.teardown(() => {
    for (const each of stores) each.close()
  })
  const take = async (name: string, limit: number, windowMs: number) => {
    const taken = [{ key: `basic\nllm/small\n${name}\nburst`, windowMs, limit }]
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => {
        const each = { ...asked(`${name} ${i}`, 1, 'burst'), counters: [], taken }
        return stores[i % 4]?.holds.hold(each, Date.now())
      }),
    )
    return answers.filter((each) => each?.outcome === 'held').length
  }
  t.equal(await take('requests-60000', 37, 60_000), 37)
  t.equal(await take('concurrency', 5, 0), 5)
})

root.test('a process alone keeps limits itself', { skip: skipValkey }, async (t) => {
  const paused = await startValkey(t)
  const { holds, close } = await holdsOf(paused.url, longMs, 200)
  t.teardown(close)
  paused.freeze()
  const taken = [{ key: 'basic\nllm/small\nconcurrency\nalone', windowMs: 0, limit: 1 }]
  const each = (id: string) => ({ ...asked(id, 1, 'alone'), counters: [], taken })
  await t.rejects(async () => holds.hold(each('a'), Date.now()))
  t.match(await holds.holdAlone?.(each('a'), Date.now()), { outcome: 'held' })
  t.match(await holds.holdAlone?.(each('b'), Date.now()), { outcome: 'busy' })
  holds.release(taken, 'a')
  t.match(await holds.holdAlone?.(each('b'), Date.now()), { outcome: 'held' })
  paused.thaw()
  await poll(() => holds.waiting === 0, 'they are released', 10_000)
})

root.test('a process alone holds beside what it knows is used', { skip: skipValkey }, async (t) => {
  const paused = await startValkey(t)
  const { counters, connection, ...replica } = await createReplica({
    ...{ url: paused.url, timeoutMs: 200 },
  })
  t.teardown(replica.close)
  const holds = createRedisHolds(connection.commands, { counters })
  t.teardown(() => holds.stop(0))
  const each = (id: string) => asked(id, 10_000, 'alone')
  t.strictSame(await replica.used(...each('a').counters), [undefined])
  counters.add(each('a').counters, 8_000, Date.now())
  await replica.flushed()
  paused.freeze()
  await poll(() => counters.unavailable, 'Redis is away')
  const outcomes: (string | undefined)[] = []
  for (let i = 0; i < 20; i += 1) {
    outcomes.push((await holds.holdAlone?.(each(`${i}`), Date.now()))?.outcome)
  }
  const held = outcomes.filter((outcome) => outcome === 'held').length
  t.ok(held >= 4 && held <= 10, `${held} of 200 tokens each fit into 2,000`)
  t.equal(outcomes.at(-1), 'busy')
  counters.add(each('a').counters, 2_000, Date.now())
  t.match(await holds.holdAlone?.(each('spent'), Date.now()), { outcome: 'spent' })
})
