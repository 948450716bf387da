import { randomUUID } from 'node:crypto'
import root, { type Test } from 'tap'
import type { Counter } from '../../../../src/core/decision/counter.ts'
import { keyPrefixOf, storeKeyOf } from '../../../../src/store/counters/redis/keys.ts'
import type { Report } from '../../../../src/store/counters.ts'
import { poll } from '../../../support/poll.ts'
import {
  createReplica,
  type Replica,
  type ReplicaOptions,
  redisKey,
} from '../../../support/redis-world.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../../support/valkey.ts'

const hour = 3_600_000
let named = 0

/** A counter that no other test uses. */
function fresh(): Counter {
  named += 1
  return { key: `basic\nllm/small\n${hour}\nuser ${named}`, windowMs: hour }
}

function reportOf(by: Report['by'], agoMs = 0): Report {
  return { id: randomUUID(), endedAt: Date.now() - agoMs, by }
}

async function replicaOf(
  t: Test,
  { url }: RunningValkey,
  more: Partial<ReplicaOptions> = {},
): Promise<Replica> {
  const replica = await createReplica({ url, journal: 'j', ...more })
  t.teardown(() => replica.close())
  return replica
}

async function sumIn({ client }: RunningValkey, counter: Counter): Promise<number> {
  return Number(await client.get(redisKey(counter)))
}

/** Makes all replicas know the counter as Redis has it. */
async function agree(valkey: RunningValkey, counter: Counter, replicas: readonly Replica[]) {
  const sum = await sumIn(valkey, counter)
  for (const replica of replicas) {
    await poll(async () => (await replica.used(counter))[0] === sum, 'all replicas know the sum')
  }
}

if (skipValkey) root.test('a Redis that loses its data', { skip: skipValkey }, async () => {})
else await testWith(await startValkey(root))

async function testWith(valkey: RunningValkey): Promise<void> {
  root.test('a flush is noticed even if the connection is kept', async (t) => {
    const [busy, idle] = [await replicaOf(t, valkey), await replicaOf(t, valkey)]
    const [theirs, both] = [fresh(), fresh()]
    busy.counters.add([both], 100, 0)
    idle.counters.add([both, theirs], 7, 0)
    await Promise.all([busy.flushed(), idle.flushed()])
    await agree(valkey, both, [busy, idle])
    await valkey.client.flushall()
    busy.counters.add([both], 5, 0)
    await busy.flushed()
    t.equal(await sumIn(valkey, both), 112)
    await poll(
      async () => (await sumIn(valkey, theirs)) === 7,
      'the idle replica sends what it knows',
    )
    t.equal(await sumIn(valkey, both), 112, 'adds nothing')
    t.ok((await valkey.client.pttl(redisKey(theirs))) <= hour)
    t.strictSame([busy.losses, idle.losses], [1, 1])
    t.strictSame([...busy.changes, ...idle.changes], [], 'Redis was not unavailable')
    await agree(valkey, both, [busy, idle])
  })

  root.test('the highest known sum wins, whichever comes first', async (t) => {
    for (const first of ['stale', 'fresh'] as const) {
      const stale = await replicaOf(t, valkey)
      const knowing = await replicaOf(t, valkey)
      const counter = fresh()
      stale.counters.add([counter], 10, 0)
      await stale.flushed()
      knowing.counters.add([counter], 1_000, 0)
      await knowing.flushed()
      const replicas = first === 'stale' ? [stale, knowing] : [knowing, stale]
      await valkey.client.flushall()
      for (const [i, replica] of replicas.entries()) {
        replica.counters.add([counter], 1 + i, 0)
        await replica.flushed()
      }
      t.equal(await sumIn(valkey, counter), 1_013, `${first} first`)
      await valkey.client.flushall()
      for (const replica of replicas) {
        replica.counters.add([counter], 1, 0)
        await replica.flushed()
      }
      t.equal(await sumIn(valkey, counter), 1_015, 'once more')
    }
  })

  root.test('a journal that is read again after a loss counts nothing twice', async (t) => {
    const youngMs = 500
    const [one, two] = [
      await replicaOf(t, valkey, { youngMs }),
      await replicaOf(t, valkey, { youngMs }),
    ]
    const counter = fresh()
    const reports = Array.from({ length: 1_000 }, (_, i) => reportOf('stream', i))
    for (const report of reports) one.counters.add([counter], 3, 0, report)
    await one.counters.kept()
    t.equal(await sumIn(valkey, counter), 3_000)
    await agree(valkey, counter, [one, two])
    await valkey.client.flushall()
    for (const report of reports) two.counters.add([counter], 3, 0, { ...report, by: 'journal' })
    const late = { ...reportOf('stream'), endedAt: Date.now() + 100 }
    two.counters.add([counter], 5, 0, late)
    await two.counters.kept()
    t.equal(await sumIn(valkey, counter), 3_005)
    two.counters.add([counter], 5, 0, { ...late, by: 'journal' })
    await two.counters.kept()
    t.equal(await sumIn(valkey, counter), 3_005)
  })

  root.test('each journal has its own time', async (t) => {
    const [here, there] = [
      await replicaOf(t, valkey),
      await replicaOf(t, valkey, { journal: 'elsewhere', youngMs: 300 }),
    ]
    const counter = fresh()
    // A gateway whose clock is an hour ahead.
    here.counters.add([counter], 5, 0, reportOf('journal', -hour))
    there.counters.add([counter], 7, 0, reportOf('journal', 1_000))
    await Promise.all([here.counters.kept(), there.counters.kept()])
    await agree(valkey, counter, [here, there])
    await valkey.client.flushall()
    there.counters.add([counter], 9, 0, reportOf('journal'))
    await there.counters.kept()
    t.equal(await sumIn(valkey, counter), 21)
  })

  root.test('a late view is accepted if nothing can count twice', async (t) => {
    await valkey.client.flushall()
    const late = await replicaOf(t, valkey)
    const [plain, reported] = [fresh(), fresh()]
    late.counters.add([plain], 50, 0)
    await late.flushed()
    await valkey.client.flushall()
    // It is not young, and its creator knew no responses.
    await valkey.client.hset(storeKeyOf('all'), { epoch: '8000000000000000', since: '1' })
    late.counters.add([plain], 1, 0)
    await late.flushed()
    t.equal(await sumIn(valkey, plain), 51, 'because no journal has reported anything')
    late.counters.add([reported], 50, 0, reportOf('stream'))
    await late.counters.kept()
    await valkey.client.flushall()
    await valkey.client.hset(storeKeyOf('all'), { epoch: '8000000000000001', since: '1' })
    late.counters.add([reported], 1, 0)
    await late.flushed()
    t.equal(await sumIn(valkey, reported), 1, 'a journal may have counted these meanwhile')
  })

  root.test('an older copy is another store', async (t) => {
    const [one, two] = [await replicaOf(t, valkey), await replicaOf(t, valkey)]
    const counter = fresh()
    one.counters.add([counter], 10, 0)
    await one.flushed()
    const keys = await valkey.client.keys('*')
    const copies = await Promise.all(
      keys.map(async (key) => [key, await valkey.client.dumpBuffer(key)] as const),
    )
    one.counters.add([counter], 5, 0)
    await one.flushed()
    two.counters.add([counter], 2, 0)
    await two.flushed()
    const restart = valkey.client.multi().flushall()
    for (const [key, copy] of copies) {
      restart.restore(key, key === redisKey(counter) ? hour : 0, copy as Buffer)
    }
    await restart.exec()
    t.equal(await sumIn(valkey, counter), 10)
    one.counters.add([counter], 1, 0)
    await one.flushed()
    await poll(async () => (await sumIn(valkey, counter)) === 18, 'both have sent what they know')
  })

  root.test('unconfirmed tokens count unless they are in a sum', async (t) => {
    const { commands } = (await replicaOf(t, valkey)).connection
    const cases: readonly (readonly [known: number, doubt: number][])[] = [
      [
        [20, 2],
        [20, 3],
      ],
      [
        [20, 2],
        [22, 3],
      ],
      [
        [20, 5],
        [23, 0],
      ],
      [
        [0, 5],
        [0, 7],
        [100, 1],
      ],
      [
        [100, 0],
        [20, 30],
      ],
    ]
    // For each step, no more than was certainly used, in whatever order the sums arrive.
    const atMost = [25, 25, 28, 113, 100]
    const exactly = [25, undefined, undefined, undefined, 100]
    for (const [i, told] of cases.entries()) {
      for (const order of [told, told.toReversed()]) {
        const counter = fresh()
        await valkey.client.flushall()
        const offer = (number: number, sender: number, ...args: number[]) =>
          commands.restore(
            [storeKeyOf('all'), `${keyPrefixOf('all')}mark${sender}`, redisKey(counter)],
            [number, 10_000, 0, '', 1_000, '{}', ...args],
          )
        for (const [sender, [known, doubt]] of order.entries()) {
          await offer(1, sender, hour, known, doubt)
          await offer(1, sender, hour, known, doubt)
        }
        const sum = await sumIn(valkey, counter)
        const [most, least] = [atMost[i] as number, Math.max(...told.map(([known]) => known))]
        t.ok(least <= sum && sum <= most, `${JSON.stringify(order)}: ${sum}`)
        if (exactly[i] !== undefined) t.equal(sum, exactly[i], JSON.stringify(order))
      }
    }
  })

  root.test('an older copy may contain unconfirmed tokens', async (t) => {
    const { commands } = (await replicaOf(t, valkey)).connection
    const counter = fresh()
    await valkey.client.flushall()
    // The sum was 10 when copied. 2 more are lost; then it got the 5 whose answer was missing.
    await valkey.client.set(redisKey(counter), '15', 'PX', hour)
    for (const sender of [1, 2]) {
      await commands.restore(
        [storeKeyOf('all'), `${keyPrefixOf('all')}mark${sender}`, redisKey(counter)],
        [1, 10_000, 0, '', 1_000, '{}', hour, 12, sender === 1 ? 5 : 0],
      )
      t.equal(await sumIn(valkey, counter), 17)
    }
  })

  /** What is in the store hash, its epoch as a number. */
  async function storeIn(): Promise<{ epoch: number; since: number }> {
    const { epoch, since } = await valkey.client.hgetall(storeKeyOf('all'))
    return { epoch: Number(epoch), since: Number(since) }
  }

  /** Puts everything there back as it is now. */
  async function copyNow(): Promise<() => Promise<unknown>> {
    const copies = await Promise.all(
      (await valkey.client.keys('*')).map(
        async (key) =>
          [key, await valkey.client.pttl(key), await valkey.client.dumpBuffer(key)] as const,
      ),
    )
    return () => {
      const restart = valkey.client.multi().flushall()
      for (const [key, leftMs, copy] of copies) {
        restart.restore(key, Math.max(0, leftMs), copy as Buffer)
      }
      return restart.exec()
    }
  }

  async function addTo(replica: Replica, counter: Counter, tokens: number): Promise<void> {
    replica.counters.add([counter], tokens, 0)
    await replica.flushed()
  }

  root.test('what was restored after one loss is not added after the next', async (t) => {
    await valkey.client.flushall()
    const replica = await replicaOf(t, valkey)
    const counter = fresh()
    await addTo(replica, counter, 100)
    await valkey.client.flushall()
    await addTo(replica, counter, 50)
    t.equal(await sumIn(valkey, counter), 150)
    const loseTheLast = await copyNow()
    await addTo(replica, counter, 7)
    await loseTheLast()
    await addTo(replica, counter, 1)
    t.equal(await sumIn(valkey, counter), 158)
  })

  root.test('a store that has an earlier epoch again gets a new one', async (t) => {
    await valkey.client.flushall()
    const [one, two] = [await replicaOf(t, valkey), await replicaOf(t, valkey)]
    const counter = fresh()
    await addTo(one, counter, 100)
    await agree(valkey, counter, [one, two])
    await valkey.client.flushall()
    await addTo(one, counter, 50)
    const turnBack = await copyNow()
    const early = await storeIn()
    await valkey.client.flushall()
    await addTo(one, counter, 7)
    await agree(valkey, counter, [one, two])
    const late = await storeIn()
    t.ok(late.epoch > early.epoch)
    await turnBack()
    await addTo(two, counter, 1)
    await agree(valkey, counter, [one, two])
    t.equal(await sumIn(valkey, counter), 158)
    t.ok((await storeIn()).epoch > late.epoch)
  })

  root.test('an epoch is later than those before even if the clock is behind', async (t) => {
    const replica = await replicaOf(t, valkey, { youngMs: 500 })
    const counter = fresh()
    await addTo(replica, counter, 100)
    await valkey.client.flushall()
    const tomorrow = (Date.now() + 24 * hour) * 1_000
    await valkey.client.hset(storeKeyOf('all'), 'epoch', tomorrow)
    await addTo(replica, counter, 1)
    t.equal(await sumIn(valkey, counter), 101)
    await valkey.client.flushall()
    replica.counters.add([counter], 10, 0, { ...reportOf('journal'), endedAt: Date.now() + 100 })
    await replica.counters.kept()
    t.equal(await sumIn(valkey, counter), 111, 'reports are accepted as soon as always')
    const { epoch, since } = await storeIn()
    t.equal(epoch, tomorrow + 1)
    t.ok(Math.abs(Date.now() - since) < 30_000)
  })

  root.test('an offer for a store that was lost meanwhile is not accepted', async (t) => {
    const { commands } = (await replicaOf(t, valkey)).connection
    const counter = fresh()
    await valkey.client.flushall()
    const keys = [storeKeyOf('all'), `${keyPrefixOf('all')}mark`, redisKey(counter)]
    await commands.restore(keys, [1, 10_000, 0, '1000000', 1_000, '{}', hour, 20, 5])
    t.equal(await sumIn(valkey, counter), 0, 'the process makes it again for the new epoch')
    const { epoch } = await storeIn()
    await commands.restore(keys, [2, 10_000, 0, epoch, 1_000, '{}', hour, 20, 5])
    t.equal(await sumIn(valkey, counter), 25)
  })

  root.test('tokens that are in doubt end with their window', async (t) => {
    const server = await startValkey(t)
    const replica = await replicaOf(t, server)
    const counter = fresh()
    await addTo(replica, counter, 100)
    server.freeze()
    replica.counters.add([counter], 5, 0)
    await poll(() => replica.counters.unavailable, 'Redis is unavailable')
    server.thaw()
    await server.client.flushall()
    replica.aheadMs += hour - 1_000
    await replica.flushed()
    // The next window.
    replica.aheadMs += 2_000
    await addTo(replica, counter, 10)
    t.equal(await sumIn(server, counter), 10)
    await server.client.flushall()
    await addTo(replica, counter, 1)
    t.equal(await sumIn(server, counter), 11)
  })

  root.test('records of other versions', async (t) => {
    const { commands } = (await replicaOf(t, valkey)).connection
    for (const [was, is] of [
      ['100 100 1', /^\d+ 130 130 0$/],
      ['1 100 100 1 and more', /^\d+ 130 130 0 and more$/],
      ['nonsense', /^\d+ 130 130 0$/],
    ] as const) {
      await valkey.client.flushall()
      const counter = fresh()
      const record = redisKey(counter).replace('}:', '}:restored:')
      await valkey.client.set(record, was, 'PX', hour)
      // 20 were added since the record, and are in the known sum.
      await valkey.client.set(redisKey(counter), '120', 'PX', hour)
      await commands.restore(
        [storeKeyOf('all'), `${keyPrefixOf('all')}mark`, redisKey(counter)],
        [1, 10_000, 0, '', 1_000, '{}', hour, 130, 0],
      )
      t.equal(await sumIn(valkey, counter), 130, was)
      t.match(await valkey.client.get(record), is, was)
    }
  })

  root.test('a restored window ends at its original time', async (t) => {
    const { commands } = (await replicaOf(t, valkey)).connection
    const counter = fresh()
    const offer = (number: number, leftMs: number, known: number) =>
      commands.restore(
        [storeKeyOf('all'), `${keyPrefixOf('all')}mark ${named}`, redisKey(counter)],
        [number, 10_000, 0, '', 1_000, '{}', leftMs, known, 0],
      )
    await valkey.client.set(redisKey(counter), '5', 'PX', hour)
    await offer(1, hour / 2, 7)
    t.equal(await sumIn(valkey, counter), 7)
    t.ok(
      (await valkey.client.pttl(redisKey(counter))) <= hour / 2,
      'not when a process without knowledge opened it',
    )
    await offer(2, hour, 8)
    t.ok((await valkey.client.pttl(redisKey(counter))) <= hour / 2)
    await offer(3, 0, 50)
    t.equal(await sumIn(valkey, counter), 8, 'a window that has ended is not restored')
    t.ok((await valkey.client.pttl(`${redisKey(counter).replace('}:', '}:restored:')}`)) > 0)
  })

  root.test('a new store takes sums first, and reports afterwards', async (t) => {
    await valkey.client.flushall()
    const replica = await replicaOf(t, valkey, { youngMs: 60_000 })
    const counter = fresh()
    await replica.used(counter)
    replica.counters.add([counter], 5, 0)
    replica.counters.add([counter], 7, 0, reportOf('stream'))
    replica.counters.add([counter], 9, 0, reportOf('journal'))
    await poll(async () => (await sumIn(valkey, counter)) === 5, 'the sum is sent')
    t.strictSame(await replica.used(counter), [12], 'reports of the stream are known here')
    const { sent } = replica.connection
    await poll(() => replica.connection.sent > sent, 'it keeps asking')
    t.ok(replica.connection.sent - sent < 5, 'from time to time')
    replica.aheadMs += 60_000
    replica.wallAheadMs += 60_000
    await replica.counters.kept()
    t.equal(await sumIn(valkey, counter), 14, 'the reports of the stream are too old by then')
  })
}
