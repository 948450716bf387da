import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import type { Counter } from '../../../../src/core/decision/counter.ts'
import { ServiceError } from '../../../../src/core/decision/errors.ts'
import { storeKeyOf } from '../../../../src/store/counters/redis/keys.ts'
import { poll } from '../../../support/poll.ts'
import {
  createReplica,
  type Replica,
  type ReplicaOptions,
  redisKey,
} from '../../../support/redis-world.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../../support/valkey.ts'
import { testCountedOnce } from '../counted-once.contract.ts'
import { type CounterWorld, testCounterStore } from '../counter-store.contract.ts'

const minute = 60_000
const hour = 3_600_000
let named = 0

/** A counter that no other test uses. */
function fresh(windowMs = hour): Counter {
  named += 1
  return { key: `basic\nllm/small\n${windowMs}\nuser ${named}`, windowMs }
}

async function replicaOf(
  t: Test,
  { url }: Pick<RunningValkey, 'url'>,
  more: Partial<ReplicaOptions> = {},
): Promise<Replica> {
  const replica = await createReplica({ url, ...more })
  t.teardown(() => replica.close())
  return replica
}

async function sumIn({ client }: RunningValkey, counter: Counter): Promise<number> {
  return Number(await client.get(redisKey(counter)))
}

/** The tokens used, as known without a request; fails the test if that needs a promise. */
function usedNow(t: Test, { counters }: Replica, counter: Counter): number | undefined {
  const states = counters.read([counter], Date.now())
  if (states instanceof Promise) {
    t.fail('a known counter is read synchronously')
    return undefined
  }
  return states[0]?.used
}

/** The key of the store's identity and epoch, created if missing. */
const store = storeKeyOf('all')
async function epochOf({ client }: RunningValkey): Promise<string> {
  await client.hsetnx(store, 'epoch', '1')
  return (await client.hget(store, 'epoch')) as string
}

/** Whether all counters have this sum here. Reads each, so that each is requested again. */
function knows(t: Test, replica: Replica, counters: readonly Counter[], sum: number): boolean {
  return counters.filter((each) => usedNow(t, replica, each) !== sum).length === 0
}

if (skipValkey) root.test('counters in Redis', { skip: skipValkey }, async () => {})
else await testWith(await startValkey(root))

async function testWith(valkey: RunningValkey): Promise<void> {
  const createWorld = async (): Promise<CounterWorld> => {
    await valkey.client.flushall()
    const replica = await createReplica({ url: valkey.url })
    const other = await createReplica({ url: valkey.url })
    const both = [replica, other]
    return {
      counters: replica.counters,
      other: other.counters,
      now: () => Date.now() + replica.wallAheadMs,
      async agree(asked) {
        await Promise.all(both.map(({ counters }) => counters.kept()))
        for (const { counters } of both) {
          await counters.read(asked, 0)
          await delay(10)
          counters.read(asked, 0)
          await counters.kept()
        }
      },
      async advance(ms) {
        await Promise.all(both.map(({ counters }) => counters.kept()))
        for (const key of await valkey.client.keys('*')) {
          const pttl = await valkey.client.pttl(key)
          if (pttl === -1) continue
          const left = pttl - ms
          await (left > 0 ? valkey.client.pexpire(key, left) : valkey.client.del(key))
        }
        for (const each of both) {
          each.aheadMs += ms
          each.wallAheadMs += ms
        }
      },
      setBack(ms) {
        for (const each of both) each.wallAheadMs -= ms
      },
      slackMs: 4_000,
      async close() {
        for (const each of both) await each.close()
      },
    }
  }
  testCounterStore('Redis', createWorld)
  testCountedOnce('Redis', createWorld)

  root.test('one read serves all that wait', async (t) => {
    const replica = await replicaOf(t, valkey)
    const counters = Array.from({ length: 300 }, () => fresh())
    const before = replica.connection.sent
    const waiting = Array.from({ length: 1_000 }, (_, i) => {
      const read = replica.counters.read([counters[i % 300] as Counter], Date.now())
      t.ok(read instanceof Promise)
      return read
    })
    t.ok((await Promise.all(waiting)).every(([state]) => state === undefined))
    t.equal(replica.connection.sent - before, 1)
    t.equal(usedNow(t, replica, counters[0] as Counter), undefined, 'synchronously from then on')
  })

  root.test('a fresh read knows what others have added while this one was idle', async (t) => {
    const [one, idle] = [await replicaOf(t, valkey), await replicaOf(t, valkey)]
    const counter = fresh()
    await Promise.all([one.used(counter), idle.used(counter)])
    one.counters.add([counter], 40, 0)
    await one.counters.kept()
    t.equal(usedNow(t, idle, counter), undefined, 'nothing has asked for it')
    await delay(200)
    one.counters.add([counter], 2, 0)
    await one.counters.kept()
    t.match(await idle.counters.readFresh([counter, fresh()], Date.now()), [
      { used: 42 },
      undefined,
    ])

    valkey.freeze()
    const begin = Date.now()
    t.match(await idle.counters.readFresh([counter], begin), [{ used: 42 }])
    t.ok(Date.now() - begin < 3_000, 'it waits a second for a store that hangs')
    valkey.thaw()
  })

  root.test('replicas learn of each other’s additions', async (t) => {
    const [one, two] = [await replicaOf(t, valkey), await replicaOf(t, valkey)]
    const counter = fresh()
    await Promise.all([one.used(counter), two.used(counter)])
    one.counters.add([counter], 40, 0)
    t.equal(usedNow(t, one, counter), 40, 'a replica knows its own additions at once')
    await poll(() => usedNow(t, two, counter) === 40, 'the other replica knows it')
    two.counters.add([counter], 2, 0)
    await poll(() => usedNow(t, one, counter) === 42, 'the first one knows it')
    const [first] = await one.counters.read([counter], 1_000_000)
    const [second] = await two.counters.read([counter], 1_000_000)
    t.ok(Math.abs((first?.resetsAt ?? 0) - (second?.resetsAt ?? 0)) < 2_000, 'one window')
  })

  root.test('a wrong wall clock changes nothing', async (t) => {
    const [right, wrong] = [await replicaOf(t, valkey), await replicaOf(t, valkey)]
    const counter = fresh(minute)
    const wrongNow = (offMs: number) => Date.now() + offMs
    wrong.counters.add([counter], 10, wrongNow(-7 * minute))
    await wrong.flushed()
    t.strictSame(await right.used(counter), [10])
    for (const offMs of [-90 * minute, 7 * minute, 600 * minute, -minute]) {
      wrong.counters.add([counter], 1, wrongNow(offMs))
      const [state] = await wrong.counters.read([counter], wrongNow(offMs))
      const leftMs = (state?.resetsAt ?? 0) - wrongNow(offMs)
      t.ok(leftMs > 0 && leftMs <= minute + 1, `${leftMs} ms left by its own clock`)
    }
    await wrong.flushed()
    t.equal(await sumIn(valkey, counter), 14)
    t.ok((await valkey.client.pttl(redisKey(counter))) <= minute)
  })

  root.test('counters expire in Redis by themselves', async (t) => {
    const replica = await replicaOf(t, valkey)
    const [short, long] = [fresh(80), fresh(minute)]
    replica.counters.add([short, long], 5, 0)
    await poll(async () => (await sumIn(valkey, long)) === 5, 'the counter exists')
    t.ok((await valkey.client.pttl(redisKey(long))) > 0)
    await poll(
      async () => (await valkey.client.exists(redisKey(short))) === 0,
      'the counter is gone',
    )
    await poll(() => usedNow(t, replica, short) === undefined, 'gone here too')
    for (const key of await valkey.client.keys('*:batch:*')) {
      t.ok((await valkey.client.pttl(key)) > 0, 'the marks too')
    }
  })

  root.test('many counters need few commands', async (t) => {
    const replica = await replicaOf(t, valkey)
    const counters = Array.from({ length: 2_000 }, () => fresh())
    const before = replica.connection.sent
    for (let i = 0; i < 20_000; i += 1) {
      replica.counters.add([counters[i % 2_000] as Counter], 1, 0)
    }
    await replica.flushed()
    const sent = replica.connection.sent - before
    t.ok(sent <= 10, `${sent} commands`)
    const sums = await valkey.client.mget(counters.map(redisKey))
    t.ok(sums.every((sum) => sum === '10'))
  })

  root.test('a counter near its limit is read more often', async (t) => {
    const replica = await replicaOf(t, valkey)
    const [far, near] = [fresh(), fresh()].map((counter) => ({ ...counter, limit: 100 }))
    replica.counters.add([far as Counter], 49, 0)
    replica.counters.add([near as Counter], 50, 0)
    await replica.flushed()
    const asked = async (counter: Counter) => {
      const [sent, begin] = [replica.connection.sent, performance.now()]
      for (let i = 0; i < 70; i += 1) {
        replica.counters.read([counter], Date.now())
        await delay(6)
      }
      return { count: replica.connection.sent - sent, tookMs: performance.now() - begin }
    }
    const often = await asked(near as Counter)
    t.ok(often.count >= 40, `${often.count} times in ${often.tookMs} ms`)
    const rarely = await asked(far as Counter)
    t.ok(rarely.count <= rarely.tookMs / 80 + 2, `${rarely.count} times in ${rarely.tookMs} ms`)
    t.ok(rarely.count >= 2)
  })

  root.test('a batch that arrives twice counts once', async (t) => {
    const { commands } = (await replicaOf(t, valkey)).connection
    const counter = fresh()
    const epoch = await epochOf(valkey)
    const keys = [store, `mark ${named}`, redisKey(counter)]
    const send = (number: number, least = 0) =>
      commands.add(keys, [number, least, 10_000, 0, epoch, '', 1, 5, 10_000])
    for (const number of [1, 1, 2, 1, 2, 2, 7, 3]) await send(number)
    t.equal(await sumIn(valkey, counter), 15, '1, 2 and 7')
    const [, , used, leftMs] = await send(4)
    t.equal(used, 15, 'the sum is still returned')
    t.ok(Number(leftMs) > 0)
  })

  root.test('a delayed batch opens no late window', async (t) => {
    const replica = await replicaOf(t, valkey)
    const { commands } = replica.connection
    const [seconds, micros] = await valkey.client.time()
    const epoch = await epochOf(valkey)
    const redisNow = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
    for (const [lateMs, opens] of [
      [0, true],
      [6_000, true],
      [10_000, false],
      [60_000, false],
    ] as const) {
      const counter = fresh()
      const keys = [store, `mark ${named}`, redisKey(counter)]
      await commands.add(keys, [1, 0, 10_000, redisNow - lateMs, epoch, '', 1, 5, 10_000])
      t.equal(await sumIn(valkey, counter), opens ? 5 : 0)
      t.ok((await valkey.client.pttl(redisKey(counter))) <= Math.max(0, 10_000 - lateMs))
    }
  })

  root.test('a foreign value does not stop the others', async (t) => {
    const replica = await replicaOf(t, valkey)
    const [list, words, full, good] = [fresh(), fresh(), fresh(), fresh()]
    await valkey.client.rpush(redisKey(list), 'x')
    await valkey.client.set(redisKey(words), 'many')
    await valkey.client.set(redisKey(full), '9223372036854775807', 'PX', hour)
    replica.counters.add([list, words, full, good], 5, 0)
    await replica.flushed()
    t.equal(await sumIn(valkey, good), 5)
    t.strictSame(replica.changes, [])
    t.strictSame(await (await replicaOf(t, valkey)).used(list, good), [undefined, 5])
  })

  root.test('a counter that an operator deletes is reset', async (t) => {
    const replica = await replicaOf(t, valkey)
    const counter = fresh()
    replica.counters.add([counter], 5, 0)
    await replica.flushed()
    await valkey.client.del(redisKey(counter))
    await poll(() => usedNow(t, replica, counter) === undefined, 'the reset is known')
    replica.counters.add([counter], 1, 0)
    await replica.flushed()
    t.equal(await sumIn(valkey, counter), 1)
  })

  root.test('unused counters are forgotten', async (t) => {
    const replica = await replicaOf(t, valkey)
    const [long, owed] = [fresh(24 * hour), fresh(24 * hour)]
    replica.counters.add([long], 5, 0)
    await Promise.all(Array.from({ length: 2_000 }, () => replica.used(fresh(minute))))
    await replica.flushed()
    t.equal(replica.counters.size, 2_001)
    replica.aheadMs += 2 * minute
    await Promise.all(Array.from({ length: 1_500 }, () => replica.used(fresh(minute))))
    t.ok(replica.counters.size <= 1_501, `${replica.counters.size} are known`)
    t.equal(usedNow(t, replica, long), 5, 'an open window is kept longer')
    replica.aheadMs += 11 * minute
    await replica.used(owed)
    replica.counters.add([owed], 7, 0)
    for (let i = 0; i < 3_000; i += 1) replica.counters.read([fresh(minute)], 0)
    t.equal(usedNow(t, replica, owed), 7, 'what has not been sent is kept')
    t.strictSame(await replica.used(long), [5], 'a forgotten counter is requested again')
  })

  root.test('unused counters are forgotten without a request', async (t) => {
    const replica = await replicaOf(t, valkey)
    const open = fresh(24 * hour)
    replica.counters.add([open], 5, 0)
    await replica.used(...Array.from({ length: 1_500 }, () => fresh(minute)))
    await replica.flushed()
    t.equal(replica.counters.size, 1_501)
    replica.aheadMs += 11 * minute
    await poll(() => replica.counters.size === 1, 'all but the open one are forgotten')
    t.equal(usedNow(t, replica, open), 5, 'an empty Redis would need it')
  })

  root.test('a stop sends what is left', async (t) => {
    const replica = await replicaOf(t, valkey, { flushMs: 10_000 })
    const counters = Array.from({ length: 1_500 }, () => fresh())
    replica.counters.add([fresh()], 1, 0)
    await replica.flushed()
    replica.counters.add(counters, 3, 0)
    t.equal(await replica.counters.stop(5_000), 0)
    const sums = await valkey.client.mget(counters.map(redisKey))
    t.ok(sums.every((sum) => sum === '3'))
    replica.counters.add(counters, 3, 0)
    t.equal(replica.counters.unflushed, 1_500, 'nothing is sent afterwards')
  })

  /** Ways to lose Redis, and to get it back. */
  const outages: readonly {
    readonly name: string
    readonly args?: readonly string[]
    begin(server: RunningValkey): unknown
    end(server: RunningValkey): unknown
  }[] = [
    { name: 'killed', begin: (server) => server.kill(), end: (server) => server.start() },
    { name: 'hanging', begin: (server) => server.freeze(), end: (server) => server.thaw() },
    {
      name: 'restarted with its data',
      args: ['--appendonly', 'yes', '--appendfsync', 'always'],
      begin: (server) => server.stop(),
      end: (server) => server.start(),
    },
    {
      name: 'demoted to a replica',
      begin: (server) => server.client.replicaof('127.0.0.1', '1'),
      end: (server) => server.client.replicaof('NO', 'ONE'),
    },
    {
      name: 'out of memory',
      begin: (server) => server.client.config('SET', 'maxmemory', '1'),
      end: (server) => server.client.config('SET', 'maxmemory', '0'),
    },
  ]
  for (const { name, args, begin, end } of outages) {
    root.test(`Redis ${name}: nothing waits, nothing is lost`, async (t) => {
      const server = await startValkey(t, args)
      const [one, two] = [await replicaOf(t, server), await replicaOf(t, server)]
      const counters = Array.from({ length: 100 }, () => fresh())
      for (const replica of [one, two]) {
        await replica.used(...counters)
        replica.counters.add(counters, 10, 0)
        await replica.flushed()
      }
      for (const replica of [one, two]) {
        await poll(() => knows(t, replica, counters, 20), 'everything is known')
      }
      await begin(server)

      for (let round = 0; round < 50; round += 1) {
        for (const replica of [one, two]) replica.counters.add(counters, 1, 0)
        for (const each of counters) usedNow(t, one, each)
        await delay(2)
      }
      await poll(
        () => one.counters.unavailable && two.counters.unavailable,
        'both know that Redis is unavailable',
      )
      t.equal(usedNow(t, one, counters[0] as Counter), 70, 'its own additions are still known')
      t.strictSame(one.changes, [true], 'reported once')
      const known = one.counters.size
      for (let i = 0; i < 20_000; i += 1) one.counters.add([counters[i % 100] as Counter], 1, 0)
      t.equal(one.counters.size, known, 'memory is limited by the number of counters')

      await end(server)
      for (const replica of [one, two]) {
        await poll(() => !replica.counters.unavailable, 'Redis is back')
        await replica.flushed()
        t.strictSame(replica.changes, [true, false], 'reported once')
      }
      for (const each of counters) t.equal(await sumIn(server, each), 20 + 2 * 50 + 200)
      for (const replica of [one, two]) {
        await poll(() => knows(t, replica, counters, 320), 'all agree')
      }
    })
  }

  root.test('an idle process notices an outage too', async (t) => {
    const server = await startValkey(t)
    const replica = await replicaOf(t, server)
    await server.kill()
    await poll(() => replica.counters.unavailable, 'Redis is unavailable')
    await server.start()
    await poll(() => !replica.counters.unavailable, 'Redis is back')
    t.strictSame(replica.changes, [true, false])
  })

  root.test('an empty Redis gets the known sums', async (t) => {
    const server = await startValkey(t)
    const replica = await replicaOf(t, server)
    const [read, added] = [fresh(), fresh()]
    replica.counters.add([read, added], 50, 0)
    await replica.flushed()
    const windowEnd = Date.now() + (await server.client.pttl(redisKey(read)))
    await server.kill()
    await server.start()
    await poll(() => replica.connection.connected(0), 'connected again')
    replica.counters.add([added], 5, 0)
    await poll(() => usedNow(t, replica, added) === 55, 'kept')
    t.equal(usedNow(t, replica, read), 50)
    await poll(async () => (await sumIn(server, added)) === 55, 'the counter that was added to')
    await poll(async () => {
      usedNow(t, replica, read)
      return (await sumIn(server, read)) === 50
    }, 'the counter that was only read')
    const end = Date.now() + (await server.client.pttl(redisKey(read)))
    t.ok(Math.abs(end - windowEnd) < 1_000, 'in the same window')
  })

  root.test('a counter that was never read is allowed or denied, as configured', async (t) => {
    const server = await startValkey(t)
    const seen = fresh()
    const [allow, deny] = await Promise.all(
      (['allow', 'deny'] as const).map((onLoss) => replicaOf(t, server, { onLoss })),
    )
    for (const replica of [allow, deny] as Replica[]) await replica.used(seen)
    await server.kill()
    const unseen = fresh()
    t.strictSame(await (allow as Replica).used(unseen), [undefined], 'the first read finds out')
    await t.rejects((deny as Replica).used(unseen), { code: 'counters_unavailable' })
    t.equal(usedNow(t, allow as Replica, unseen), undefined, 'later reads are answered at once')
    t.throws(() => deny?.counters.read([unseen], 0), ServiceError)
    t.equal(usedNow(t, deny as Replica, seen), undefined, 'known counters are still used')
    const owed = fresh()
    allow?.counters.add([owed], 9, 0)
    t.equal(usedNow(t, allow as Replica, owed), 9, 'additions of this process count')
    await server.start()
    await poll(() => !deny?.counters.unavailable, 'Redis is back')
    t.strictSame(await (deny as Replica).used(unseen), [undefined])
  })

  root.test('a stop without Redis ends in time', async (t) => {
    const server = await startValkey(t)
    const replica = await replicaOf(t, server)
    const counters = [fresh(), fresh()]
    await replica.used(...counters)
    server.freeze()
    replica.counters.add(counters, 5, 0)
    const begin = performance.now()
    t.equal(await replica.counters.stop(200), 2, 'reports what was given up')
    t.ok(performance.now() - begin < 5_000)
    server.thaw()
  })

  root.test('a start without Redis succeeds', async (t) => {
    const server = await startValkey(t)
    await server.kill()
    const replica = await createReplica({ url: server.url, connect: false })
    t.teardown(() => replica.close())
    t.equal(await replica.connection.connected(50), false)
    const counter = fresh()
    t.strictSame(await replica.used(counter), [undefined])
    replica.counters.add([counter], 5, 0)
    await server.start()
    await replica.flushed()
    t.equal(await sumIn(server, counter), 5)
  })
}
