import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import type { HoldReply } from '../../../src/ratelimit/holds/hold-scripts.ts'
import { createRedisHolds } from '../../../src/ratelimit/holds/redis-holds.ts'
import { oldCounterKey } from '../../../src/ratelimit/redis/keys.ts'
import type { Counter } from '../../../src/ratelimit/rules/counter.ts'
import { emptyHold, type Hold } from '../../../src/ratelimit/rules/hold.ts'
import type { Partition } from '../../../src/ratelimit/sums/partition.ts'
import type { WindowUsage } from '../../../src/ratelimit/sums/shared-sums.ts'
import { startCluster } from '../../support/cluster.ts'
import { poll } from '../../support/poll.ts'
import { createSharingGateway, type SharingOptions } from '../../support/redis-world.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { type HoldWorld, testHoldStore } from './hold-store.contract.ts'

/** Hardly ever over while a test runs, whosever it is; below a day, from which on windows have a second place. */
const longMs = 86_000_000
const shortLeaseMs = 2_500
/** A busy machine may keep this process from an answer for so long, and from one of a server that is going to be stopped. */
const [timeoutMs, shortTimeoutMs] = [5_000, 600]

let valkey: RunningValkey

root.before(async () => {
  if (!skipValkey) valkey = await startValkey(root)
})

async function createWorld(url: string): Promise<HoldWorld> {
  const [one, two] = [
    await createSharingGateway({ url, lease: shortLeaseMs, timeoutMs }),
    await createSharingGateway({ url, lease: shortLeaseMs, timeoutMs }),
  ]
  return {
    ...{
      isJoint: false,
      holds: one.holds,
      other: two.holds,
      leaseMs: shortLeaseMs,
      shortMs: 1_000,
    },
    now: Date.now,
    async use(counter, tokens) {
      one.add([counter], tokens)
      await one.flushed()
    },
    async settled() {
      await Promise.all([one.flushed(), two.flushed()])
    },
    advance: async (ms: number) => void (await delay(ms)),
    async close() {
      await Promise.all([one.close(), two.close()])
    },
  }
}

if (!skipValkey) {
  testHoldStore('Redis', () => createWorld(valkey.url))
}

async function gatewayOf(t: Test, url: string, more: Partial<SharingOptions> = {}) {
  const gateway = await createSharingGateway({ url, timeoutMs, ...more })
  t.teardown(gateway.close)
  return gateway
}

function asked(id: string | undefined, limit: number, user: string): Hold {
  const key = `basic\nllm/small\n${longMs}\n${user}`
  return {
    ...emptyHold,
    id,
    counters: [{ key, owner: user, window: { ms: longMs }, limit }],
    expected: {
      ...{ input: 100, inputVariance: 1, output: 100, outputVariance: 1 },
      ...{ floor: 200, beyondRoom: 200, isSeveral: false, least: 1, worst: 400 },
    },
    ...{ overshoot: 0.25, canLimitOutput: true, charge: 'admission' },
  }
}

const skip = { skip: skipValkey }

root.test('parallel holds of four gateways keep the bound', skip, async (t) => {
  const gateways = await Promise.all([1, 2, 3, 4].map(() => gatewayOf(t, valkey.url)))
  const answers = await Promise.all(
    Array.from({ length: 250 }, (_, i) =>
      gateways[i % 4]?.holds.hold(asked(`burst ${i}`, 10_000, 'burst'), Date.now()),
    ),
  )
  const held = answers.filter((each) => each?.outcome === 'held')
  const ceilings = held.reduce((sum, each) => sum + 100 + (each?.ceiling ?? 0), 0)
  t.ok(held.length >= 20 && held.length <= 50, `${held.length} of 250 are admitted`)
  t.ok(ceilings <= 12_500, `their ceilings: ${ceilings}`)
  t.ok(answers.every((each) => each?.outcome !== 'spent'))
})

root.test('a budget of users of four gateways keeps its bound, to the unit', skip, async (t) => {
  const gateways = await Promise.all([1, 2, 3, 4].map(() => gatewayOf(t, valkey.url)))
  const users = ['u0', 'u1', 'u2', 'u3'].map((name) => `budget ${name}`)
  const pool = shared(`cost-${longMs}`, 100_000, '')
  const prices = { base: 1_000, perInput: 3, mostPerInput: 4, perOutput: 15, grain: 1_000 }
  const each = (i: number, id: string | undefined): Hold => {
    const own = asked(id, 1_000_000, users[i % 4] as string)
    return { ...own, counters: [{ ...pool, factors: prices }, ...own.counters], asker: 'x' }
  }
  const answers = await Promise.all(
    Array.from({ length: 120 }, async (_, i) => {
      const answer = await gateways[i % 4]?.holds.hold(each(i, `budget ${i}`), Date.now())
      return { i, outcome: answer?.outcome, ceiling: 1_400 + 15 * (answer?.ceiling ?? 0) }
    }),
  )
  const held = answers.filter(({ outcome }) => outcome === 'held')
  const ceilings = held.reduce((sum, { ceiling }) => sum + ceiling, 0)
  t.ok(held.length >= 10 && ceilings <= 125_000, `${held.length} of 120: ${ceilings}`)
  t.ok(answers.every(({ outcome }) => outcome !== 'spent'))
  for (const { i, ceiling } of held) {
    gateways[i % 4]?.add([pool], ceiling)
    gateways[i % 4]?.holds.release(each(i, '').counters, `budget ${i}`)
  }
  await Promise.all(gateways.map(({ flushed }) => flushed()))
  for (const i of users.keys()) {
    const { windows } = (await gateways[0]?.holds.hold(each(i, undefined), Date.now())) ?? {}
    t.match(
      windows?.map(({ used, held = 0 }) => [used, held]),
      [
        [ceilings, 0],
        [0, 0],
      ],
    )
  }
})

root.test('usage of the counters counts beside holds', skip, async (t) => {
  const [one, other] = [await gatewayOf(t, valkey.url), await gatewayOf(t, valkey.url)]
  const own = asked('used', 1_000, 'used')
  t.equal((await one.holds.hold(own, Date.now())).outcome, 'held')
  one.add(own.counters, 700)
  one.holds.release(own.counters, 'used')
  await one.flushed()
  const [window] = (await other.holds.hold(asked(undefined, 1_000, 'used'), Date.now())).windows
  t.match(window, { used: 700 })
  t.equal(window?.held, undefined)
})

root.test('releases wait for a Redis that is away', skip, async (t) => {
  const paused = await startValkey(t)
  const { holds, flushed, ...gateway } = await gatewayOf(t, paused.url, {
    timeoutMs: shortTimeoutMs,
  })
  const own = asked('a', 10_000, 'away')
  t.equal((await holds.hold(own, Date.now())).outcome, 'held')
  paused.freeze()
  await t.rejects(async () => holds.hold(asked('b', 10_000, 'away'), Date.now()))
  gateway.add(own.counters, 150)
  holds.release(own.counters, 'a')
  await delay(shortTimeoutMs + 100)
  t.equal(holds.waiting, 1, 'the unanswered hold is given back too')
  paused.thaw()
  await flushed()
  const [window] = (await holds.hold(asked(undefined, 10_000, 'away'), Date.now())).windows
  t.match(window, { used: 150 })
  t.equal(window?.held, undefined)
})

root.test('a hold whose answer cannot be read is given back', async (t) => {
  const released: (readonly string[])[] = []
  const holds = createRedisHolds({
    commands: {
      takeHold: async () => null as unknown as HoldReply,
      releaseHolds: async (keys) => released.push(keys),
      renewHold: async () => {},
    },
    windows: (counters) => counters.map(() => ({ used: 0, own: 0, isKnown: true }) as WindowUsage),
    read: async () => [],
    partitionOf: () =>
      ({ tag: '{all}', gateway: 'g', lastEnded: () => [] }) as unknown as Partition,
    isWriter: () => true,
  })
  t.teardown(() => holds.stop(0))
  await t.rejects(async () => holds.hold(asked('a', 1_000, 'odd'), Date.now()), TypeError)
  await poll(() => released.length === 1, 'it is released')
})

root.test(
  'a process that has read the line of a request counts it, and no hold',
  skip,
  async (t) => {
    const writer = await gatewayOf(t, valkey.url, { gateway: 'read' })
    const reader = await gatewayOf(t, valkey.url, { gateway: 'read', isWriter: false })
    const own = asked('a', 10_000, 'sequential')
    const ask = async () =>
      (await reader.holds.hold(asked(undefined, 10_000, 'sequential'), Date.now())).windows[0]
    t.equal((await writer.holds.hold(own, Date.now())).outcome, 'held')
    t.match(await ask(), { used: 0, held: 200 })
    reader.add(own.counters, 150)
    reader.holds.release(own.counters, 'a')
    const before = await ask()
    t.match(before, { used: 150 }, 'although the writer has sent nothing')
    t.equal(before?.held, undefined)
    const { windows } = await writer.holds.hold(asked(undefined, 10_000, 'sequential'), Date.now())
    t.match(windows, [{ used: 0, held: 200 }], 'whoever has not read it sees the hold')
    writer.add(own.counters, 150)
    writer.holds.release(own.counters, 'a')
    await writer.flushed()
    t.match(await ask(), { used: 150 }, 'once')
  },
)

root.test('a line that comes between two requests counts for the second', skip, async (t) => {
  let looks = 0
  const gateway = await gatewayOf(t, valkey.url, {
    isWriter: false,
    onLook() {
      looks += 1
      if (looks !== 3) return
      gateway.add(own.counters, 150)
      gateway.holds.release(own.counters, 'a')
    },
  })
  const own = asked('a', 10_000, 'between')
  const ask = async (id?: string) => {
    const { windows } = await gateway.holds.hold(asked(id, 10_000, 'between'), Date.now())
    return [windows[0]?.used, windows[0]?.held]
  }
  await ask('a')
  looks = 1
  t.strictSame(await Promise.all([ask(), ask()]), [
    [0, 200],
    [150, undefined],
  ])
})

root.test('without a writer places become free', skip, async (t) => {
  const reader = await gatewayOf(t, valkey.url, { isWriter: false })
  const of = { key: 'basic\nllm/small\nconcurrency\nunwritten', owner: 'unwritten', limit: 1 }
  const requestCounters = [{ ...of, window: { ms: 0 } }]
  for (let i = 0; i < 60; i += 1) {
    const each = { ...asked(`${i}`, 1, 'unwritten'), counters: [], requestCounters }
    t.equal((await reader.holds.hold(each, Date.now())).outcome, 'held', `${i}`)
    reader.holds.release(requestCounters, `${i}`)
  }
})

root.test('what lines say is left to the process that writes', skip, async (t) => {
  const writer = await gatewayOf(t, valkey.url, { gateway: 'shared' })
  const reader = await gatewayOf(t, valkey.url, { gateway: 'shared', isWriter: false })
  const other = await gatewayOf(t, valkey.url)
  const own = asked('a', 10_000, 'readers')
  await reader.holds.hold(own, Date.now())
  const sent = reader.connection.sent
  reader.holds.release(own.counters, 'a')
  reader.holds.renew(own.counters, 'a', { mean: 1, variance: 0 })
  await delay(50)
  t.equal(reader.connection.sent, sent, 'the reader sends nothing of it')
  const held = async () =>
    (await other.holds.hold(asked(undefined, 10_000, 'readers'), Date.now())).windows[0]?.held
  t.equal(await held(), 200)
  writer.holds.release(own.counters, 'a')
  await writer.flushed()
  t.equal(await held(), undefined)
})

root.test('four gateways share requests and places exactly', skip, async (t) => {
  const gateways = await Promise.all([1, 2, 3, 4].map(() => gatewayOf(t, valkey.url)))
  const take = async (name: string, limit: number, ms: number) => {
    const key = `basic\nllm/small\n${name}\nburst`
    const requestCounters = [{ key, owner: 'burst', window: { ms }, limit }]
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => {
        const each = { ...asked(`${name} ${i}`, 1, 'burst'), counters: [], requestCounters }
        return gateways[i % 4]?.holds.hold(each, Date.now())
      }),
    )
    return answers.filter((each) => each?.outcome === 'held').length
  }
  t.equal(await take(`requests-${longMs}`, 37, longMs), 37)
  t.equal(await take('concurrency', 5, 0), 5)
})

/** One of a limit on requests (a day nearly) or on concurrency that others share. */
function shared(counted: string, limit: number, whom: string, resource = 'basic') {
  const window = { ms: counted === 'concurrency' ? 0 : longMs }
  return { key: `${resource}\n#all\n${counted}\n${whom}`, owner: whom, window, limit }
}

root.test(
  'what is granted for one subject and refused for another is never spent',
  skip,
  async (t) => {
    const gateways = await Promise.all([1, 2, 3, 4].map(() => gatewayOf(t, valkey.url)))
    const pool = shared(`requests-${longMs}`, 5, 'pool')
    const model = shared('concurrency', 2, '', 'ModelRef/llm/never-spent')
    const each = (id: string): Hold => {
      return { ...asked(id, 1, 'never'), counters: [], requestCounters: [pool, model], asker: 'x' }
    }
    const outcomes = await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        const holds = gateways[i % 4]?.holds
        return (await holds?.hold(each(`never ${i}`), Date.now()))?.outcome
      }),
    )
    t.equal(outcomes.filter((outcome) => outcome === 'held').length, 2)
    t.equal(outcomes.filter((outcome) => outcome === 'busy').length, 198)
    await Promise.all(gateways.map(({ flushed }) => flushed()))
    const { windows } =
      (await gateways[0]?.holds.hold({ ...each(''), id: undefined }, Date.now())) ?? {}
    t.match(windows, [{ used: 2 }, { used: 2 }], 'and given back')
  },
)

root.test(
  'what was granted is given back if the call for the next subject gets no response',
  skip,
  async (t) => {
    const paused = await startValkey(t)
    let looks = 0
    const onLook = () => {
      looks += 1
      if (looks === 2) paused.freeze()
    }
    const { holds, flushed } = await gatewayOf(t, paused.url, { timeoutMs: shortTimeoutMs, onLook })
    const requestCounters = [
      shared('concurrency', 9, 'pool'),
      shared('concurrency', 9, '', 'Tenant'),
    ]
    const each = { ...asked('lost', 1, 'lost'), counters: [], requestCounters, asker: 'x' }
    await t.rejects(async () => holds.hold(each, Date.now()))
    t.equal(holds.waiting, 2)
    paused.thaw()
    await flushed()
    t.match((await holds.hold({ ...each, id: undefined }, Date.now())).windows, [
      { used: 0 },
      { used: 0 },
    ])
    t.equal(await paused.client.hlen('tollgate:{all}:holds:Tenant\n'), 0)
  },
)

root.test(
  'a store that has lost its data admits nothing that was told to be used',
  skip,
  async (t) => {
    const own = await startValkey(t)
    const [one, other] = [await gatewayOf(t, own.url), await gatewayOf(t, own.url)]
    const key = `basic\nllm/small\nrequests-${longMs}\nlost`
    const requestCounters = [{ key, owner: 'lost', window: { ms: longMs }, limit: 2 }]
    const each = (id: string) => ({ ...asked(id, 1_000, 'lost'), requestCounters })
    one.add(requestCounters, 2)
    one.add(each('').counters, 1_000)
    await one.flushed()
    t.strictSame(await other.used(...requestCounters), [2])
    const spent = async () => (await other.holds.hold(each('a'), Date.now())).outcome
    t.equal(await spent(), 'spent')
    await own.client.flushall()
    const first = await other.holds.hold(each('b'), Date.now())
    t.match(first, { outcome: 'spent', windows: [{ used: 1_000 }, { used: 2 }] })
  },
)

root.test('the first hold in a window knows what a version before has counted', skip, async (t) => {
  const own = asked('a', 1_000, 'before')
  const [{ key }] = own.counters as [Required<Counter>]
  await valkey.client.set(oldCounterKey(key), '1000', 'PX', 60_000)
  const { holds } = await gatewayOf(t, valkey.url)
  t.match(await holds.hold(own, Date.now()), { outcome: 'spent', windows: [{ used: 1_000 }] })
})

root.test('an open request that another subject may refuse is awaited', skip, async (t) => {
  const { holds, flushed } = await gatewayOf(t, valkey.url)
  const pools = ['awaited', 'awaited, too'].map((pool) => shared(`requests-${longMs}`, 1, pool))
  const each = (id: string): Hold => {
    return { ...asked(id, 1, 'awaited'), counters: [], requestCounters: pools, asker: id }
  }
  t.match(await holds.hold(each('a'), Date.now()), { outcome: 'held' })
  // The call for one of them was the first, after which the other could have refused.
  const results = await Promise.all(
    pools.map((pool, i) => holds.hold({ ...each(`b${i}`), requestCounters: [pool] }, Date.now())),
  )
  t.match(
    results.find(({ outcome }) => outcome === 'busy'),
    { open: 1 },
  )
  await flushed()
})

root.test('a process alone keeps limits itself', skip, async (t) => {
  const paused = await startValkey(t)
  const { holds, flushed } = await gatewayOf(t, paused.url, { timeoutMs: shortTimeoutMs })
  paused.freeze()
  const of = { key: 'basic\nllm/small\nconcurrency\nalone', owner: 'alone', limit: 1 }
  const requestCounters = [{ ...of, window: { ms: 0 } }]
  const each = (id: string) => ({ ...asked(id, 1, 'alone'), counters: [], requestCounters })
  await t.rejects(async () => holds.hold(each('a'), Date.now()))
  t.match(await holds.holdAlone?.(each('a'), Date.now()), { outcome: 'held' })
  t.match(await holds.holdAlone?.(each('b'), Date.now()), { outcome: 'busy' })
  holds.release(requestCounters, 'a')
  t.match(await holds.holdAlone?.(each('b'), Date.now()), { outcome: 'held' })
  paused.thaw()
  await flushed()
})

root.test('a process alone holds beside what it knows is used', skip, async (t) => {
  const paused = await startValkey(t)
  const gateway = await gatewayOf(t, paused.url, { timeoutMs: shortTimeoutMs })
  const { holds } = gateway
  const each = (id: string) => asked(id, 10_000, 'alone')
  gateway.add(each('a').counters, 8_000)
  await gateway.flushed()
  paused.freeze()
  await poll(() => gateway.isUnavailable, 'Redis is away')
  const outcomes: (string | undefined)[] = []
  for (let i = 0; i < 20; i += 1) {
    outcomes.push((await holds.holdAlone?.(each(`${i}`), Date.now()))?.outcome)
  }
  const held = outcomes.filter((outcome) => outcome === 'held').length
  t.ok(held >= 4 && held <= 10, `${held} of 200 tokens each fit into 2,000`)
  t.equal(outcomes.at(-1), 'busy')
  gateway.add(each('a').counters, 2_000)
  t.match(await holds.holdAlone?.(each('spent'), Date.now()), { outcome: 'spent' })
})

root.test('in a Cluster holds end with the sums of their node', skip, async (t) => {
  const nodes = await startCluster(t)
  const url = `redis+cluster://127.0.0.1:${nodes[0]?.port}`
  const [one, other] = [await gatewayOf(t, url), await gatewayOf(t, url)]
  const users = Array.from({ length: 40 }, (_, i) => `user ${i}`)
  const total = shared('concurrency', 1_000, '', 'Tenant')
  const each = (user: string, id: string | undefined) => {
    const pool = shared('concurrency', 1_000, `group ${user.at(-1)}`)
    return { ...asked(id, 10_000, user), requestCounters: [pool, total], asker: 'x' }
  }
  for (const user of users) {
    const { counters, requestCounters, ...rest } = each(user, user)
    const { outcome } = await one.holds.hold({ ...rest, counters, requestCounters }, Date.now())
    t.equal(outcome, 'held')
    one.add(counters, 120)
    one.holds.release([...counters, ...requestCounters], user)
  }
  // A node that is away takes only its own partitions with it.
  const partitions = users.map((user) => one.holds.partitionsOf?.(each(user, user)) ?? [])
  t.ok(partitions.every(({ length }) => length === 3))
  t.ok(new Set(partitions.map(([own]) => own)).size > 8)
  const { windows } = await other.holds.hold(each('full', undefined), Date.now())
  t.ok((windows[2]?.used ?? 99) <= 40)
  await one.flushed()
  for (const user of users) {
    const { windows } = await other.holds.hold(each(user, undefined), Date.now())
    const [own, pool, all] = windows
    t.match([own?.used, own?.held, pool?.used, all?.used], [120, undefined, 0, 0])
  }
  const left = shared('concurrency', 0, '', 'Tenant')
  const refused = {
    ...each('last', 'last'),
    requestCounters: [shared('concurrency', 1, 'group'), left],
  }
  t.equal((await one.holds.hold(refused, Date.now())).outcome, 'busy')
  await one.flushed()
  t.equal((await other.holds.hold({ ...refused, id: 'next' }, Date.now())).windows[1]?.used, 0)
  const perNode = await Promise.all(nodes.map(({ client }) => client.dbsize()))
  t.ok(
    perNode.every((keys) => keys > 0),
    `${perNode}`,
  )
})
