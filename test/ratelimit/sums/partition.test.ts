import { test } from 'tap'
import type { ExactInt } from '../../../src/formats/exact.ts'
import { windowKey } from '../../../src/ratelimit/redis/keys.ts'
import { createWindowSums } from '../../../src/ratelimit/rules/sums.ts'
import { knownUse } from '../../../src/ratelimit/rules/tally.ts'
import type { CounterReset, WindowedCounter } from '../../../src/ratelimit/rules/windows.ts'
import { createPartition } from '../../../src/ratelimit/sums/partition.ts'
import { createPartitionSender } from '../../../src/ratelimit/sums/partition-sender.ts'
import {
  type LongSums,
  maxSumsPerCall,
  type SumStore,
} from '../../../src/ratelimit/sums/sum-store.ts'
import { poll } from '../../support/poll.ts'
import { Server } from './model.ts'

const start = 1_800_000_000_000
const hour = 3_600_000

function counterOf(user: string): WindowedCounter {
  return { key: `s\nm\n1h\n${user}`, owner: 'all', window: { ms: hour } }
}
const ann = counterOf('ann')
const long: WindowedCounter = { ...ann, key: 's\nm\n1w\nann', window: { ms: 168 * hour } }

interface World {
  now: number
  server: Server
  calls: number
  /** Holds that have ended. */
  readonly ended: string[]
  /** What an earlier version has counted, by counters. */
  readonly old: Map<string, number>
  /** What a second store does when it is asked for the sums of long windows. */
  load: LongSums['load']
  /** What happens when a call arrives, and before it is answered. */
  arrives: () => void
  answers: () => void
}

/** A server, and the partitions that share it. */
function createWorld() {
  const world: World = {
    now: start,
    server: new Server(() => world.now),
    calls: 0,
    ended: [],
    old: new Map(),
    load: async (ids) => ids.map(() => new Map()),
    arrives: () => {},
    answers: () => {},
  }
  const store: SumStore = {
    async write(mark, entries, ended = []) {
      world.calls += 1
      world.arrives()
      for (const { ids } of ended) world.ended.push(...ids)
      const answer = world.server.write(mark, entries)
      world.answers()
      return answer
    },
    read: async (keys) => keys.map((key) => new Map(world.server.fields(key))),
    readOld: async (windows) => windows.map(({ counter }) => world.old.get(counter) ?? 0),
  }
  function join(
    gateway: string,
    writes: boolean | (() => boolean) = true,
    nonce = `${gateway}-process`,
  ) {
    const resets = new Map<string, readonly CounterReset[]>()
    const sums = createWindowSums(resets, () => world.now)
    const events: string[] = []
    const partition = createPartition({
      ...{ tag: 'all', gateway, nonce, store },
      longSums: { load: (ids) => world.load(ids), save: async () => {} },
      isWriter: typeof writes === 'boolean' ? () => writes : writes,
      windows: () => sums.all.values(),
      now: () => world.now,
      monotonic: () => world.now,
      onBeyond: () => events.push('beyond'),
      onLoss: () => events.push('loss'),
      onRival: (nonce) => events.push(nonce),
    })
    return {
      ...{ sums, partition, events },
      reset: (key: string, at: number) => void resets.set(key, [{ at, used: 0 }]),
      count(amount: number, counter = ann) {
        const counted = { at: world.now, amount, counters: [counter] }
        for (const tally of sums.count(counted, world.now)) partition.enqueue(tally)
      },
      read: (counter = ann) => partition.readWhole([sums.at(counter, world.now)]),
      used: (counter = ann) => knownUse(sums.at(counter, world.now)),
    }
  }
  const total = (counter = ann): ExactInt => {
    const window = createWindowSums(new Map(), () => 0).at(counter, world.now)
    return world.server.fields(windowKey('all', window)).get('+') ?? 0
  }
  return { world, join, total }
}

test('what has grown while a call was under way is sent with the next', async (t) => {
  const { world, join, total } = createWorld()
  const g = join('g')
  g.count(40)
  world.answers = () => g.count(2)
  await g.partition.send()
  world.answers = () => {}
  t.equal(total(), 40)
  await g.partition.send()
  t.equal(total(), 42)
  t.equal(g.partition.due, 0)
})

test('a call that was not answered is followed by newer sums', async (t) => {
  const { world, join, total } = createWorld()
  const g = join('g')
  g.count(40)
  world.answers = () => {
    throw new Error('lost')
  }
  await t.rejects(g.partition.send())
  g.count(2)
  world.answers = () => {}
  await g.partition.send()
  t.equal(total(), 42)
  t.strictSame(g.events, [])
})

test('a store with an older copy gets what it has lost', async (t) => {
  const { world, join, total } = createWorld()
  const g = join('g')
  g.count(1, counterOf('bob'))
  await g.partition.send()
  const copy = world.server.copy()
  g.count(40)
  await g.partition.send()
  world.server = copy
  await g.partition.send()
  t.strictSame(g.events, ['loss'])
  t.equal(total(), 0)
  await g.partition.send()
  t.equal(total(), 40)
})

test('a loss is noticed that comes before all was given back', async (t) => {
  const { world, join, total } = createWorld()
  const g = join('g')
  g.count(40)
  await g.partition.send()
  world.server = new Server(() => world.now)
  world.arrives = () => {
    world.server = new Server(() => world.now)
  }
  await g.partition.send()
  await g.partition.send()
  world.arrives = () => {}
  await g.partition.send()
  t.equal(total(), 40)
})

test('after an outage all is sent, and nothing counts as lost', async (t) => {
  const { world, join, total } = createWorld()
  const g = join('g')
  g.count(40)
  await g.partition.send()
  world.now += 61_000
  await g.partition.send()
  t.strictSame(g.events, [])
  t.equal(total(), 40)
  t.equal(g.partition.due + g.partition.deferred, 1)
})

test('what ended gateways had counted is given back', async (t) => {
  const { world, join, total } = createWorld()
  const [g, ended] = [join('g'), join('ended')]
  ended.count(50)
  await ended.partition.send()
  g.count(40)
  await g.partition.send()
  await g.read()
  world.server = new Server(() => world.now)
  await g.partition.send()
  t.equal(g.partition.incomplete, 1)
  await g.partition.send()
  t.equal(total(), 40)
  await g.partition.readIncomplete()
  await g.partition.send()
  t.equal(total(), 90)
  t.equal(g.used(), 90, 'and was known all the time')
})

test('recently used windows are restored first, the others at leisure', async (t) => {
  const { world, join, total } = createWorld()
  const g = join('g')
  for (let i = 0; i < 3 * maxSumsPerCall; i += 1) g.count(1, counterOf(`user ${i}`))
  for (let i = 0; i < 3; i += 1) await g.partition.send()
  g.sums.at(ann, world.now)
  world.now += 20_000
  const last = counterOf(`user ${3 * maxSumsPerCall - 1}`)
  g.sums.at(last, world.now).usedAt += 20_000
  world.server = new Server(() => world.now)
  await g.partition.send()
  await g.partition.send()
  t.equal(total(last), 1)
  t.ok(g.partition.deferred > maxSumsPerCall, `${g.partition.deferred} are left`)
  await g.partition.send()
  t.ok(g.partition.deferred > maxSumsPerCall, 'not yet')
  for (let i = 0; i < 3; i += 1) {
    world.now += 50
    await g.partition.send()
  }
  t.equal(g.partition.deferred, 0)
  t.equal(total(counterOf('user 0')), 1)
})

test('a process that does not write learns of others, and writes nothing', async (t) => {
  const { world, join, total } = createWorld()
  const [g, sibling] = [join('g'), join('g', false)]
  g.count(40)
  await g.partition.send()
  sibling.count(7)
  await sibling.partition.send()
  t.equal(total(), 40)
  t.equal(sibling.used(), 40)
  t.equal(sibling.partition.due, 0)
  t.equal(world.server.marks.size, 1)
  t.strictSame(sibling.events, [])
})

test('a store with more of this gateway says so to the one that writes', async (t) => {
  const { join } = createWorld()
  const [before, after] = [join('g'), join('g')]
  before.count(40)
  await before.partition.send()
  after.count(3)
  await after.partition.send()
  t.strictSame(after.events, ['beyond'])
  t.equal(after.used(), 40)
})

test('another process under its name is noticed', async (t) => {
  const { join } = createWorld()
  const [one, other] = [join('g'), join('g', true, 'another')]
  await one.partition.send()
  await other.partition.send()
  await one.partition.send()
  t.strictSame([one.events, other.events], [['another'], []])
})

test('a window that is over is not sent', async (t) => {
  const { world, join } = createWorld()
  const g = join('g')
  g.count(40)
  world.now += 2 * hour
  await g.partition.send()
  t.equal(g.partition.due, 0)
  t.equal(world.server.hashes.size, 0)
})

test('the mark is sent with a call that has nothing else', async (t) => {
  const { world, join } = createWorld()
  const g = join('g')
  await g.partition.send()
  await g.partition.send()
  t.equal(world.calls, 2)
  t.strictSame(
    [...world.server.marks.values()].map(({ number }) => number),
    [2],
  )
})

test('a hold ends with the sums that have its response', async (t) => {
  const { world, join } = createWorld()
  const g = join('g')
  for (let i = 0; i <= maxSumsPerCall; i += 1) g.count(1, counterOf(`user ${i}`))
  g.partition.end(['held:ann'], 'one')
  g.partition.end(['held:ann'], 'two')
  g.partition.end(['held:bob'], 'three')
  await g.partition.send()
  t.strictSame(world.ended, [], 'some sums are still due')
  world.answers = () => {
    throw new Error('lost')
  }
  await t.rejects(g.partition.send())
  world.answers = () => {}
  world.ended.length = 0
  g.partition.end(['held:ann'], 'four')
  await g.partition.send()
  t.strictSame(world.ended, ['one', 'two', 'four', 'three'])
  t.equal(g.partition.due, 0)
})

test('what a process was told ends with the process that writes next', async (t) => {
  const { world, join } = createWorld()
  let isWriter = false
  const next = join('g', () => isWriter)
  next.partition.end(['held:ann'], 'too early')
  world.now += 10_000
  next.partition.end(['held:ann'], 'early')
  world.now += 10_000
  next.partition.end(['held:ann'], 'late')
  t.equal(next.partition.due, 0, 'it sends nothing of it')
  isWriter = true
  next.partition.begin()
  await next.partition.send()
  t.strictSame(world.ended, ['early', 'late'])
})

test('without a store only those are waited for whose leases may not have ended', async (t) => {
  const { world, join } = createWorld()
  const g = join('g')
  for (let i = 0; i < 4; i += 1) {
    g.partition.end(['held:ann'], `${i}`)
    world.now += 60_000
  }
  await g.partition.send()
  t.strictSame(world.ended, ['2', '3'])
})

test('what a version before has counted is counted once, by everybody', async (t) => {
  const { world, join, total } = createWorld()
  world.old.set(ann.key, 70)
  const [g, h] = [join('g'), join('h')]
  g.count(5)
  await g.read()
  t.equal(g.used(), 75)
  await g.partition.send()
  await h.read()
  await h.partition.send()
  t.strictSame([h.used(), total()], [75, 75])
  world.old.set(ann.key, 99)
  await h.read()
  t.equal(h.used(), 75, 'as it was when it was first read')
  world.server.hashes.clear()
  await h.read()
  await h.partition.send()
  t.equal(total(), 75, 'it comes back after a loss')
  world.now += hour
  const late = join('g', true, 'late')
  await late.read()
  t.equal(late.used(), 99, 'a process that begins later')
  world.now += hour
  await late.read()
  t.equal(late.used(), 0, 'in no window that begins after it')
})

test('a window that was reset has nothing of a version before', async (t) => {
  const { world, join } = createWorld()
  world.old.set(ann.key, 70)
  world.now += 1
  const g = join('g')
  g.reset(ann.key, start)
  await g.read()
  t.equal(g.used(), 0)
})

test('a database that hangs delays a long window only briefly', async (t) => {
  const { world, join, total } = createWorld()
  const [g, other] = [join('g'), join('other')]
  other.count(5, long)
  await other.partition.send()
  let answer = (): void => {}
  world.load = (ids) =>
    new Promise((settle) => {
      answer = () => settle(ids.map(() => new Map([['ended', 50]])))
    })
  let isRead = false
  const reading = g.read(long).then(() => {
    isRead = true
  })
  await poll(() => isRead, 'it is read')
  await reading
  t.equal(g.used(long), 5, 'from the store')
  t.equal(g.partition.incomplete, 1)
  const rereading = g.partition.readIncomplete()
  answer()
  t.equal(await rereading, true)
  t.equal(g.used(long), 55, 'with what only the database has')
  t.equal(g.partition.incomplete, 0)
  await g.partition.send()
  t.equal(total(long), 55)
})

test('a database that does not respond is not asked every second', async (t) => {
  const { world, join } = createWorld()
  const g = join('g')
  let asked = 0
  world.load = async () => {
    asked += 1
    throw new Error('down')
  }
  await g.read(long)
  t.equal(asked, 1)
  const onOutcome = (error?: unknown): void => void (error === undefined || t.fail(String(error)))
  const sender = createPartitionSender({
    ...{ partition: g.partition, flushMs: 5, monotonic: () => world.now, onOutcome },
  })
  async function maintain(seconds: number): Promise<void> {
    for (let i = 0; i < seconds; i += 1) {
      world.now += 1_000
      sender.maintain()
      for (let turns = 0; turns < 20; turns += 1) await new Promise(setImmediate)
    }
  }
  await maintain(16)
  const soon = asked
  t.ok(soon >= 2 && soon <= 4, `${soon} times`)
  let end = (): void => {}
  world.load = () => {
    asked += 1
    return new Promise((_, reject) => {
      end = () => reject(new Error('hung'))
    })
  }
  await maintain(40)
  t.equal(asked, soon + 1, 'one at a time')
  end()
  world.load = async (ids) => ids.map(() => new Map())
  await maintain(17)
  t.equal(g.partition.incomplete, 0)
  await sender.stop(0)
})
