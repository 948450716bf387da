import { randomUUID } from 'node:crypto'
import root, { type Test } from 'tap'
import type { Counter } from '../../../../src/core/decision/counter.ts'
import type { Report } from '../../../../src/store/counters.ts'
import { poll } from '../../../support/poll.ts'
import {
  createReplica,
  type Replica,
  type ReplicaOptions,
  redisKey,
} from '../../../support/redis-world.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../../support/valkey.ts'

const minute = 60_000
const hour = 3_600_000
let named = 0

/** A counter that no other test uses. */
function fresh(windowMs = hour): Counter {
  named += 1
  return { key: `basic\nllm/small\n${windowMs}\nuser ${named}`, windowMs }
}

function reportOf(by: Report['by'], agoMs = 0): Report {
  return { id: randomUUID(), endedAt: Date.now() - agoMs, by }
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

/** Lets time pass for the process only. */
function advance(replica: Replica, ms: number): void {
  replica.aheadMs += ms
  replica.wallAheadMs += ms
}

if (skipValkey) root.test('reports in Redis', { skip: skipValkey }, async () => {})
else await testWith(await startValkey(root))

async function testWith(valkey: RunningValkey): Promise<void> {
  root.test('the ids in Redis expire by themselves', async (t) => {
    await valkey.client.flushall()
    const replica = await replicaOf(t, valkey)
    const counter = fresh(24 * hour)
    const agos = [0, 10, minute, 5 * minute, 50 * minute]
    for (const agoMs of agos) replica.counters.add([counter], 1, 0, reportOf('journal', agoMs))
    await replica.counters.kept()
    t.equal(await sumIn(valkey, counter), agos.length)
    const sets = await valkey.client.keys('*:seen:*')
    t.ok(sets.length >= 4 && sets.length <= 5, `${sets.length} sets`)
    const members: string[] = []
    for (const key of sets) {
      const leftMs = await valkey.client.pttl(key)
      t.ok(leftMs > 24 * hour && leftMs <= 25 * hour, `${leftMs} ms left`)
      members.push(...(await valkey.client.smembers(key)))
    }
    t.equal(members.length, agos.length)
    for (const member of members) t.match(member, /^[\w-]{16}$/)
  })

  root.test('a response that ended a day ago is not counted', async (t) => {
    const replica = await replicaOf(t, valkey)
    const counter = fresh(48 * hour)
    replica.counters.add([counter], 1, 0, reportOf('journal', 24 * hour + minute))
    replica.counters.add([counter], 2, 0, reportOf('journal', 24 * hour - minute))
    await replica.counters.kept()
    t.equal(await sumIn(valkey, counter), 2)
  })

  root.test('additions without reports store no ids', async (t) => {
    await valkey.client.flushall()
    const replica = await replicaOf(t, valkey)
    for (let i = 0; i < 100; i += 1) replica.counters.add([fresh()], 1, 0)
    await replica.counters.kept()
    t.strictSame(await valkey.client.keys('*:seen:*'), [])
  })

  root.test('a report of the stream is visible at once', async (t) => {
    const replica = await replicaOf(t, valkey, { flushMs: 10_000 })
    const counter = fresh()
    const [streamed, journaled] = [reportOf('stream'), reportOf('journal')]
    await replica.used(counter)
    replica.counters.add([fresh()], 1, 0)
    await replica.counters.kept()
    replica.counters.add([counter], 5, 0, streamed)
    t.strictSame(await replica.used(counter), [5])
    replica.counters.add([counter], 5, 0, { ...streamed, by: 'journal' })
    replica.counters.add([counter], 7, 0, journaled)
    t.strictSame(await replica.used(counter), [5], 'one of the journal once Redis has decided')
    await replica.counters.stop(5_000)
    t.strictSame(await replica.used(counter), [12])
    t.equal(await sumIn(valkey, counter), 12)
  })

  root.test('many reports need few commands', async (t) => {
    const [one, two] = [await replicaOf(t, valkey), await replicaOf(t, valkey)]
    const counters = Array.from({ length: 700 }, () => [fresh(), fresh(24 * hour)])
    const before = one.connection.sent
    for (let i = 0; i < 5_000; i += 1) {
      const report = reportOf('stream')
      const hit = counters[i % 700] as Counter[]
      one.counters.add(hit, 1 + (i % 700), 0, report)
      two.counters.add(hit, 1 + (i % 700), 0, { ...report, by: 'journal' })
    }
    await Promise.all([one.counters.kept(), two.counters.kept()])
    t.ok(one.connection.sent - before <= 40, `${one.connection.sent - before} commands`)
    const sums = await valkey.client.mget(counters.flat().map(redisKey))
    const expected = counters.flatMap((_, i) => {
      const times = Math.floor((4_999 - i) / 700) + 1
      return [String(times * (i + 1)), String(times * (i + 1))]
    })
    t.strictSame(sums, expected)
    t.equal(one.counters.unflushed, 0)
  })

  root.test('a batch of reports that arrives twice', async (t) => {
    const { commands } = (await replicaOf(t, valkey)).connection
    const [one, two] = [fresh(), fresh()]
    named += 1
    const store = `store ${named}`
    await valkey.client.hset(store, { epoch: '1', 'cut:j': '99' })
    const marks = [`mark ${named}`, redisKey(one), redisKey(two)]
    const keys = [store, ...marks, `seen ${named}`, `other ${named}`]
    const send = (number: number, ...ids: string[]) => {
      const ended = ids.includes('early') ? 99 : 100
      const reports = ids.flatMap((id, i) => [i, id, 1, 2, 10, ended, 0, 2, 1, hour, 2, minute])
      return commands.add(keys, [
        ...[number, 0, 10_000, 0, '1', 'j', 2],
        ...[1, hour],
        ...[0, 0],
        ...[hour, ended, JSON.stringify(reports)],
      ])
    }
    t.equal((await send(1, 'a', 'b')).at(-1), '0,1')
    t.equal((await send(1, 'a', 'b')).at(-1), '0,1', 'repeated and not counted')
    t.equal((await send(3, 'b', 'c', 'c')).at(-1), '1')
    await send(2, 'd')
    t.equal(await sumIn(valkey, one), 32, 'two batches and three responses')
    await valkey.client.sadd(`other ${named}`, 'e')
    await send(4, 'e')
    t.equal(await sumIn(valkey, one), 33, 'found in the other minute')
    t.equal(await sumIn(valkey, two), 30)
    await send(5, 'd')
    t.equal(await sumIn(valkey, one), 44, 'a stale batch has not marked what it did not count')
    t.ok(
      (await valkey.client.pttl(redisKey(two))) <= minute,
      'at most the time that the response had left',
    )
    await send(6, 'early')
    t.equal(await sumIn(valkey, one), 45, 'not counted: it may be in the sums of a lost store')
    t.equal(await valkey.client.hget(store, 'until:j'), '100')
    t.ok((await valkey.client.pttl(`seen ${named}`)) > 0)
  })

  root.test('a foreign value under the name of a set', async (t) => {
    await valkey.client.flushall()
    const replica = await replicaOf(t, valkey)
    const counter = fresh()
    const report = reportOf('journal', 30 * minute)
    const key = `tollgate:{all}:seen:${Math.floor(report.endedAt / minute)}`
    await valkey.client.set(key, 'what is this')
    replica.counters.add([counter], 5, 0, report)
    replica.counters.add([counter], 6, 0, reportOf('journal'))
    replica.counters.add([counter], 7, 0)
    await replica.counters.kept()
    t.equal(await sumIn(valkey, counter), 18)
  })

  root.test('after an outage the stream’s reports are left to the journal', async (t) => {
    const server = await startValkey(t)
    const [one, two] = [await replicaOf(t, server), await replicaOf(t, server)]
    const counters = [fresh(), fresh()] as const
    await one.used(...counters)
    await server.kill()
    const old = Array.from({ length: 1_000 }, () => reportOf('stream'))
    for (const report of old) one.counters.add(counters, 3, 0, report)
    one.counters.add(counters, 5, 0)
    await poll(() => one.counters.unavailable, 'Redis is unavailable')
    t.strictSame(await one.used(...counters), [3_005, 3_005], 'they count here')
    advance(one, 21_000)
    const young = { ...reportOf('stream'), endedAt: Date.now() + 21_000 }
    one.counters.add(counters, 2, 0, young)
    t.strictSame(await one.used(...counters), [3_007, 3_007], 'until Redis answers')
    await server.start()
    await one.counters.kept()
    for (const each of counters) t.equal(await sumIn(server, each), 7, 'Redis does not get them')
    await poll(async () => (await one.used(counters[0]))[0] === 7, 'the view is up to date')
    t.equal(one.counters.unflushed, 0)
    for (const report of [...old, young]) {
      two.counters.add(counters, report === young ? 2 : 3, 0, { ...report, by: 'journal' })
    }
    await two.counters.kept()
    for (const each of counters) t.equal(await sumIn(server, each), 3_007)
  })

  root.test('an attempt that hung does no harm', async (t) => {
    const server = await startValkey(t)
    const [one, two] = [await replicaOf(t, server), await replicaOf(t, server)]
    const counter = fresh()
    await Promise.all([one.used(counter), two.used(counter)])
    server.freeze()
    const reports = Array.from({ length: 100 }, () => reportOf('stream'))
    for (const report of reports) one.counters.add([counter], 3, 0, report)
    await poll(() => one.counters.unavailable, 'Redis is unavailable')
    // Redis may have it in its buffers and execute it later.
    advance(one, 21_000)
    server.thaw()
    await one.counters.kept()
    for (const report of reports) two.counters.add([counter], 3, 0, { ...report, by: 'journal' })
    await two.counters.kept()
    t.equal(await sumIn(server, counter), 300)
  })

  root.test('usage of a killed process is left to the journal', async (t) => {
    const two = await replicaOf(t, valkey)
    const one = await replicaOf(t, valkey, { flushMs: 10_000 })
    const counter = fresh()
    one.counters.add([counter], 1, 0, reportOf('stream'))
    await one.counters.kept()
    const reports = Array.from({ length: 50 }, () => reportOf('stream'))
    for (const report of reports) one.counters.add([counter], 2, 0, report)
    one.connection.close()
    t.equal(await sumIn(valkey, counter), 1, 'none of it was sent')
    for (const report of reports) two.counters.add([counter], 2, 0, { ...report, by: 'journal' })
    await two.counters.kept()
    t.equal(await sumIn(valkey, counter), 101)
  })

  root.test('the journal waits during an outage', async (t) => {
    const server = await startValkey(t)
    const replica = await replicaOf(t, server)
    const counter = fresh()
    await replica.used(counter)
    await server.kill()
    replica.counters.add([counter], 3, 0, reportOf('journal'))
    let isKept = false
    const kept = replica.counters.kept().then(() => {
      isKept = true
    })
    await poll(() => replica.counters.unavailable, 'Redis is unavailable')
    advance(replica, 2 * minute)
    t.notOk(isKept)
    await server.start()
    await kept
    t.equal(await sumIn(server, counter), 3)
    await replica.counters.kept()
  })

  root.test('a stop ends the waiting', async (t) => {
    const server = await startValkey(t)
    const replica = await replicaOf(t, server)
    const counter = fresh()
    await replica.used(counter)
    await server.kill()
    replica.counters.add([counter], 3, 0, reportOf('journal'))
    replica.counters.add([counter], 3, 0, reportOf('stream'))
    const kept = replica.counters.kept()
    kept.catch(() => {})
    t.equal(await replica.counters.stop(50), 0, 'the journal has them')
    await t.rejects(kept, /stopped/)
    await t.rejects(replica.counters.kept(), /stopped/, 'later calls fail too')
    const idle = await replicaOf(t, valkey)
    await idle.used(counter)
    await idle.counters.stop(1_000)
    await idle.counters.kept()
  })

  root.test('a journal has one reader', async (t) => {
    const server = await startValkey(t)
    const [one, two] = [await replicaOf(t, server), await replicaOf(t, server)]
    const other = await replicaOf(t, server, { journal: 'another' })
    t.equal(await one.counters.claimJournal(60_000), true)
    t.equal(await two.counters.claimJournal(60_000), false)
    t.equal(await other.counters.claimJournal(60_000), true)
    t.equal(await one.counters.claimJournal(200), true, 'the claim is renewed')
    await poll(() => two.counters.claimJournal(60_000), 'the claim has expired')
    t.equal(await one.counters.claimJournal(60_000), false)
    await server.kill()
    t.equal(await two.counters.claimJournal(60_000), false, 'no reader is known')
  })

  root.test('each journal forgets its own responses', async (t) => {
    const server = await startValkey(t)
    const one = await replicaOf(t, server, { journal: 'one' })
    const other = await replicaOf(t, server, { journal: 'other' })
    const counter = fresh()
    const told = reportOf('journal', 10 * minute)
    for (const { counters } of [one, other]) {
      counters.add([counter], 5, 0, told)
      await counters.kept()
    }
    t.equal(await sumIn(server, counter), 10, 'reports of two gateways are two responses')
    await one.counters.forgetReports(Date.now())
    other.counters.add([counter], 5, 0, told)
    await other.counters.kept()
    t.equal(await sumIn(server, counter), 10, 'the other journal still knows it')
  })

  root.test('forgotten ids are removed once', async (t) => {
    const server = await startValkey(t, ['--appendonly', 'yes', '--appendfsync', 'always'])
    const replica = await replicaOf(t, server)
    const counter = fresh()
    const sets = () => server.client.keys('*:seen:*')
    for (const agoMs of [20 * minute, 5 * minute, 1_000]) {
      replica.counters.add([counter], 1, 0, reportOf('journal', agoMs))
    }
    await replica.counters.kept()
    t.equal((await sets()).length, 3)
    const until = Date.now() - 10 * minute
    await Promise.all([1, 2].map(() => replica.counters.forgetReports(until)))
    t.equal((await sets()).length, 2)
    const { sent } = replica.connection
    await replica.counters.forgetReports(until)
    await replica.counters.forgetReports(until - minute)
    t.ok(
      replica.connection.sent - sent <= 1,
      'removed sets are not requested again; only the heartbeat is sent',
    )
    await replica.counters.forgetReports(Date.now() + hour)
    t.equal((await sets()).length, 1, 'the last minutes are never forgotten')
    await server.kill()
    advance(replica, 10 * minute)
    await replica.counters.forgetReports(Date.now() + hour)
    await server.start()
    await poll(() => replica.connection.connected(0), 'Redis is back')
    t.equal((await sets()).length, 1)
    await replica.counters.forgetReports(Date.now() + hour)
    t.strictSame(await sets(), [], 'requested again after an outage')
  })
}
