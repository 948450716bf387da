import { randomUUID } from 'node:crypto'
import root, { type Test } from 'tap'
import type { Counter } from '../../../src/core/decision/counter.ts'
import { createMemoryCounters } from '../../../src/store/counters/memory.ts'
import { maxResets, type Report } from '../../../src/store/counters.ts'
import { poll } from '../../support/poll.ts'
import { createReplica, type Replica, type ReplicaOptions } from '../../support/redis-world.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'
import { skipValkey, startValkey } from '../../support/valkey.ts'

const second = 1_000
const hour = 3_600_000
let named = 0

/** Two counters of a user that no other test uses. */
function fresh(): readonly [Counter, Counter] {
  named += 1
  const counterOf = (windowMs: number) => ({
    key: `basic\nllm/small\n${windowMs}\nuser ${named}`,
    windowMs,
  })
  return [counterOf(hour), counterOf(24 * hour)]
}

function reportOf(endedAt: number, by: Report['by'] = 'journal'): Report {
  return { id: randomUUID(), endedAt, by }
}

root.test('in memory, nothing that ended before a reset is added', async (t) => {
  const now = Date.UTC(2026, 2, 1, 12)
  const counters = createMemoryCounters()
  const [a, b] = fresh()
  const used = async () => (await counters.read([a, b], now)).map((state) => state?.used)
  counters.add([a, b], 100, now)
  await counters.reset([a], now)
  t.strictSame(await used(), [undefined, 100])
  let counted = 0
  const onCounted = () => {
    counted += 1
  }
  for (const by of ['journal', 'stream'] as const) {
    counters.add([a, b], 10, now, { ...reportOf(now - second, by), onCounted })
  }
  counters.add([a, b], 10, now, reportOf(now))
  t.strictSame(await used(), [undefined, 130], 'what ended before it')
  t.equal(counted, 2, 'it is counted elsewhere')
  counters.add([a, b], 1, now, reportOf(now + 1))
  t.strictSame(await used(), [1, 131])

  const restarted = createMemoryCounters(new Map([[a.key, now]]))
  for (const endedAt of [now - second, now + second])
    restarted.add([a, b], 1, endedAt, reportOf(endedAt))
  const after = await restarted.read([a, b], now + second)
  t.strictSame(
    after.map((state) => state?.used),
    [1, 2],
    'by a process that reads the journal again',
  )
})

root.test('in memory, a clock that steps back after a reset stops no counting', async (t) => {
  const now = Date.UTC(2026, 2, 1, 12)
  const counters = createMemoryCounters()
  const [a] = fresh()
  await counters.reset([a], now)
  const back = now - hour
  for (const by of ['stream', 'journal', 'stream'] as const) {
    counters.add([a], 10, back + 5, reportOf(back, by))
  }
  t.match(counters.read([a], back + 10), [{ used: 30 }])
})

root.test('in Redis', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t)
  const replicaOf = async (t: Test, more: Partial<ReplicaOptions> = {}): Promise<Replica> => {
    const replica = await createReplica({ url: valkey.url, journal: 'journal', ...more })
    t.teardown(() => replica.close())
    return replica
  }

  // The first one: it needs a store without any resets.
  await t.test('resets are told apart from those before a loss', async (t) => {
    const proxy = await startTcpProxy(t, valkey.port)
    const one = await replicaOf(t, { youngMs: 2_000 })
    const other = await replicaOf(t, {
      ...{ youngMs: 2_000, timeoutMs: 200, url: proxy.through(valkey.url) },
    })
    const [a, b] = fresh()
    const [earlier] = fresh()
    // Only the other process knows the sums.
    other.counters.add([a, b], 100, 0)
    await other.flushed()
    await one.counters.reset([earlier], Date.now())
    const [seen] = fresh()
    for (const each of [one, other]) t.strictSame(await each.used(seen), [undefined])
    proxy.swallow()
    await valkey.client.flushall()
    await poll(() => one.losses === 1, 'one notices the loss', 20_000)
    await one.counters.kept()
    // As many as the other process knows of.
    await one.counters.reset([a], Date.now())
    proxy.heal()
    await poll(() => other.losses === 1, 'the other one notices it', 20_000)
    other.counters.add([b], 1, 0)
    await other.counters.kept()
    await one.counters.kept()
    const third = await replicaOf(t)
    t.strictSame(await third.used(a, b), [undefined, 101])
  })

  await t.test('a reset is known to every process', async (t) => {
    const [one, other] = [await replicaOf(t), await replicaOf(t)]
    const [a, b] = fresh()
    one.counters.add([a, b], 100, 0)
    await one.flushed()
    t.strictSame(await other.used(a, b), [100, 100])
    await one.counters.reset([a], Date.now())
    t.strictSame(await one.used(a, b), [undefined, 100], 'at once here')
    await poll(async () => (await other.used(a))[0] === undefined, 'the other process knows', 3_000)
    other.counters.add([a, b], 1, 0)
    await other.flushed()
    await poll(async () => (await one.used(a))[0] === 1, 'a new window')
    t.strictSame(await other.used(a, b), [1, 101])
  })

  await t.test('nothing that ended before it is added, by any process', async (t) => {
    const [one, other] = [await replicaOf(t), await replicaOf(t)]
    const [a, b] = fresh()
    const at = Date.now()
    await one.counters.reset([a], at)
    for (const { counters } of [one, other]) {
      for (const by of ['journal', 'stream'] as const) {
        counters.add([a, b], 10, 0, reportOf(at - second, by))
        counters.add([a, b], 1, 0, reportOf(at + 1, by))
      }
      await counters.kept()
    }
    const late = await replicaOf(t)
    t.strictSame(await late.used(a, b), [4, 44])
    await poll(async () => (await one.used(a, b)).join() === '4,44', 'in each view')
  })

  await t.test('a clock that steps back after a reset stops no counting', async (t) => {
    const [one, other] = [await replicaOf(t), await replicaOf(t)]
    const [a, b] = fresh()
    // Of a clock that is an hour ahead of Redis's; and two minutes ago, before the gateway's stepped back.
    await one.counters.reset([a], Date.now() + hour)
    await one.counters.reset([b], Date.now() - 120 * second)
    other.wallAheadMs = -hour
    for (const by of ['journal', 'stream'] as const) {
      one.counters.add([a], 1, 0, reportOf(Date.now(), by))
      other.counters.add([b], 1, 0, reportOf(Date.now() - hour, by))
    }
    await Promise.all([one, other].map(({ counters }) => counters.kept()))
    t.strictSame(await one.used(a), [2])
    t.strictSame(await other.used(b), [2])
  })

  await t.test('it is not undone by sums that are restored', async (t) => {
    // A new store takes sums before it takes reports.
    const slow = { youngMs: 2_000 }
    const [one, other] = [await replicaOf(t, slow), await replicaOf(t, slow)]
    const [a, b] = fresh()
    one.counters.add([a, b], 100, 0)
    await one.flushed()
    t.strictSame(await other.used(a, b), [100, 100])
    const at = Date.now()
    await one.counters.reset([a], at)
    await poll(async () => (await other.used(a))[0] === undefined, 'the other process knows', 3_000)
    await valkey.client.flushall()
    await poll(() => one.losses + other.losses === 2, 'both notice the loss', 10_000)
    await poll(async () => {
      const third = await createReplica({ url: valkey.url, journal: 'journal' })
      const used = await third.used(a, b)
      await third.close()
      return used.join() === ',100'
    }, 'the other sum is restored, and only that')
    other.counters.add([a, b], 10, 0, reportOf(at - second))
    await other.counters.kept()
    t.equal((await one.used(a))[0], undefined, 'what ended before it is still not added')
  })

  for (const late of ['the process that made it', 'another']) {
    await t.test(`${late} comes late after a reset and a loss`, async (t) => {
      const proxies = [await startTcpProxy(t, valkey.port), await startTcpProxy(t, valkey.port)]
      const slow = { youngMs: 2_000, timeoutMs: 200 }
      const [one, other] = [
        await replicaOf(t, { ...slow, url: proxies[0]?.through(valkey.url) as string }),
        await replicaOf(t, { ...slow, url: proxies[1]?.through(valkey.url) as string }),
      ]
      const [a, b] = fresh()
      one.counters.add([a, b], 100, 0)
      await one.flushed()
      t.strictSame(await other.used(a, b), [100, 100])
      // The other process does not hear of the reset.
      proxies[1]?.swallow()
      await one.counters.reset([a], Date.now())
      if (late !== 'another') {
        proxies[0]?.swallow()
        proxies[1]?.heal()
      }
      await valkey.client.flushall()
      const [first, second] = late === 'another' ? [one, other] : [other, one]
      await poll(() => first.losses === 1, 'the first one notices the loss', 20_000)
      const stored = async () => {
        const third = await createReplica({ url: valkey.url, journal: 'journal' })
        const used = await third.used(a, b)
        await third.close()
        return used.join()
      }
      await poll(async () => /100$/.test(await stored()), 'it restores the sums', 20_000)
      for (const proxy of proxies) proxy.heal()
      await poll(() => second.losses === 1, 'the second one notices the loss', 20_000)
      await poll(async () => (await stored()) === ',100', 'only the other sum is there', 20_000)
      for (const { counters } of [one, other]) {
        counters.add([b], 1, 0)
        await counters.kept()
      }
      t.equal(await stored(), ',102')
    })
  }

  await t.test('a process that has missed many resets forgets what it knew', async (t) => {
    const one = await replicaOf(t)
    const other = await replicaOf(t, { flushMs: 1_000 })
    const [a] = fresh()
    one.counters.add([a], 100, 0)
    await one.flushed()
    t.strictSame(await other.used(a), [100])
    await one.counters.reset([a], Date.now())
    const many = Array.from({ length: maxResets }, () => fresh()[0])
    await one.counters.reset(many, Date.now())
    await poll(async () => (await other.used(a))[0] === undefined, 'the other process knows', 5_000)
  })

  await t.test('what somebody else has put there does no harm', async (t) => {
    const one = await replicaOf(t)
    const [a] = fresh()
    await one.counters.reset([a], Date.now())
    const [record = ''] = await valkey.client.keys(`*:reset:*${a.key.split(' ').at(-1)}`)
    await valkey.client.set(record, 'x')
    one.counters.add([a], 1, 0, reportOf(Date.now()))
    await one.counters.kept()
    t.strictSame(await one.used(a), [1])
  })
})
