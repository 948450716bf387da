import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { ServiceError } from '../../../src/formats/errors.ts'
import { type ExactInt, parseExact } from '../../../src/formats/exact.ts'
import { openDurableFiles } from '../../../src/journal/durable-files.ts'
import { type JournalFolder, openJournalFolder } from '../../../src/journal/journal-folder.ts'
import { connectRedis } from '../../../src/ratelimit/redis/connection.ts'
import type { Counter } from '../../../src/ratelimit/rules/counter.ts'
import { openGatewaySums } from '../../../src/ratelimit/sums/gateway-sums.ts'
import { startSums } from '../../../src/ratelimit/sums/process-sums.ts'
import { createRedisSums } from '../../../src/ratelimit/sums/redis-sums.ts'
import type { LongSums } from '../../../src/ratelimit/sums/sum-store.ts'
import { poll } from '../../support/poll.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { lasting } from '../../support/window-ends.ts'
import { plainLines } from './plain-lines.ts'

const file = 'usage.jsonl'
const hour: Counter = {
  key: 's\nm\n1h\nann',
  owner: lasting('ann'),
  window: { ms: 3_600_000 },
  limit: 100,
}
const week: Counter = { ...hour, key: 's\nm\n1w\nann', window: { ms: 604_800_000 } }

interface ProcessOptions {
  readonly path: string
  readonly gateway?: string
  readonly valkey?: RunningValkey
  readonly onLoss?: 'allow' | 'deny'
  readonly longSums?: LongSums
  readonly monotonic?: () => number
}

/** A process of a gateway, as main.ts would build it. */
async function startProcess(t: Test, options: ProcessOptions, folder?: JournalFolder) {
  const { path, gateway = 'g1', valkey, onLoss = 'allow', longSums } = options
  const { monotonic = () => performance.now() } = options
  mkdirSync(join(path, 'lines'), { recursive: true })
  const connection = valkey && connectRedis(valkey.url, () => {})
  await connection?.connected(5_000)
  const clocks = { now: Date.now, monotonic }
  const own = folder ?? openJournalFolder(join(path, 'lines'))
  const losses: string[] = []
  const faults: unknown[] = []
  const sums = await openGatewaySums({
    ...clocks,
    ...{ gateway, files: [file], tags: ['all'], tagOf: () => 'all', longSums },
    folder: own,
    kept: openDurableFiles(join(path, 'kept')),
    store: connection && createRedisSums(connection.commands),
    ...plainLines((amount) => [{ at: Date.now(), amount, counters: [hour, week] }]),
    onLoss: () => losses.push('loss'),
    onDouble: () => losses.push('double'),
    onFault: (error) => faults.push(error),
  })
  const running = startSums({
    ...clocks,
    ...{ sums, flushMs: 5, onLoss, onUnavailable: () => {} },
    onFault: (error) => faults.push(error),
  })
  t.teardown(async () => {
    await running.stop(0)
    connection?.close()
  })
  return {
    ...{ sums, running, losses, faults, folder: own },
    used: async () => (await running.read([hour], Date.now())).map(({ used }) => used)[0],
  }
}

function folder(t: Test): string {
  const made = makeTemporaryFolder()
  t.teardown(() => made.remove())
  return made.path
}

function log(path: string, tokens: ExactInt): void {
  appendFileSync(join(path, 'lines', file), `\n${tokens}\n`)
}

root.test('a gateway alone', async (t) => {
  const path = folder(t)
  const one = await startProcess(t, { path })
  log(path, 40)
  await one.sums.tail.readAll()
  log(path, 2)
  t.equal(await one.used(), 42, 'a line is known as soon as it is written')
  const [window] = await one.running.read([hour], Date.now())
  t.ok(Number(window?.resetsAt) > Date.now(), 'an unused window has an end, too')
  await poll(() => one.sums.isWriter, 'it becomes the writer')
  t.equal(await one.running.stop(1_000), 0)
  const next = await startProcess(t, { path })
  t.equal(await next.used(), 42, 'a restart forgets nothing')
  t.strictSame([...one.faults, ...next.faults], [])
})

root.test('an outage of the database is no fault', { skip: skipValkey }, async (t) => {
  const path = folder(t)
  let saves = 0
  async function save(): Promise<never> {
    saves += 1
    throw new ServiceError('store_unavailable')
  }
  const longSums: LongSums = { load: async () => [], save }
  const one = await startProcess(t, { path, longSums, valkey: await startValkey(t) })
  await poll(() => one.sums.isWriter, 'it becomes the writer')
  log(path, 40)
  t.equal(await one.used(), 40)
  t.equal(await one.running.stop(1_000), 0)
  t.strictSame([saves, one.faults], [1, []])
})

root.test('a save of long windows ends while lines arrive', async (t) => {
  const weeks = Array.from({ length: 600 }, (_, i) => ({ ...week, key: `s\nm\n1w\nuser ${i}` }))
  const saved: number[] = []
  const longSums: LongSums = {
    load: async () => [],
    async save(_gateway, rows) {
      saved.push(rows.length)
      if (saved.length < 20) one.sums.shared.count({ at: Date.now(), amount: 1, counters: weeks })
    },
  }
  const one = await startProcess(t, { path: folder(t), longSums })
  await poll(() => one.sums.isWriter, 'it becomes the writer')
  one.sums.shared.count({ at: Date.now(), amount: 1, counters: weeks })
  await one.sums.shared.saveLong()
  t.strictSame(saved, [512, 88])
  await one.sums.shared.saveLong()
  t.strictSame(saved, [512, 88, 512, 88], 'those that changed meanwhile')
})

root.test('a database that hangs at a save does not stop the upkeep', async (t) => {
  const path = folder(t)
  mkdirSync(join(path, 'lines'))
  let [touches, saves, skippedMs, end] = [0, 0, 0, () => {}]
  const real = openJournalFolder(join(path, 'lines'))
  const counting = {
    ...real,
    touch(name: string) {
      touches += 1
      real.touch(name)
    },
  }
  const longSums: LongSums = {
    load: async () => [],
    save() {
      saves += 1
      return new Promise((settle) => {
        end = settle
      })
    },
  }
  const monotonic = () => performance.now() + skippedMs
  const one = await startProcess(t, { path, longSums, monotonic }, counting)
  await poll(() => one.sums.isWriter, 'it becomes the writer')
  log(path, 40)
  await one.sums.tail.readAll()
  skippedMs = 61_000
  await poll(() => saves === 1, 'it saves')
  skippedMs = 200_000
  const before = touches
  await poll(() => touches > before + 1, 'the role is renewed')
  t.equal(saves, 1, 'one save at a time')
  end()
})

root.test('gateways that share a Redis', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t)
  const [here, there] = [folder(t), folder(t)]
  const a = await startProcess(t, { path: here, valkey })
  await poll(() => a.sums.isWriter, 'the first process becomes the writer')
  const b = await startProcess(t, { path: here, valkey })
  const c = await startProcess(t, { path: there, gateway: 'g2', valkey })
  const total = async (): Promise<ExactInt | undefined> => {
    const [key = ''] = await valkey.client.keys('tollgate:{all}:w:s*1h*')
    return parseExact((await valkey.client.hget(key, '+')) ?? '')
  }

  await t.test('each knows its own at once, and others soon', async (t) => {
    t.strictSame([await a.used(), await b.used(), await c.used()], [0, 0, 0])
    log(here, 40)
    log(there, 50)
    await Promise.all([a, b, c].map(({ sums }) => sums.tail.readAll()))
    t.equal(await b.used(), 40)
    await poll(async () => (await a.used()) === 90, 'A learns of C')
    await poll(async () => (await b.used()) === 90, 'B learns of C')
    await poll(async () => (await c.used()) === 90, 'C learns of A')
    t.equal(b.sums.isWriter, false)
  })

  await t.test('a Redis that has lost all gets it again', async (t) => {
    await valkey.client.flushall()
    await poll(async () => (await total()) === 90, 'all is there again')
    t.ok(a.losses.includes('loss'))
    log(here, 30)
    await poll(async () => (await total()) === 120, 'and goes on')
  })

  await t.test('without Redis what is known is known', async (t) => {
    const strict = await startProcess(t, { path: there, gateway: 'g2', valkey, onLoss: 'deny' })
    t.equal(await strict.used(), 120)
    valkey.freeze()
    await poll(() => a.running.isUnavailable && strict.running.isUnavailable, 'Redis is away')
    log(there, 5)
    await strict.sums.tail.readAll()
    t.equal(await strict.used(), 125)
    await t.rejects(async () => strict.running.read([{ ...week, key: 'new' }], Date.now()), {
      code: 'counters_unavailable',
    })
    t.match(await a.running.read([{ ...week, key: 'new' }], Date.now()), [{ used: 0 }])
    valkey.thaw()
    await poll(async () => (await total()) === 125, 'what was counted meanwhile is there')
  })

  await t.test('another process becomes the writer', async (t) => {
    t.equal(await a.running.stop(1_000), 0)
    log(here, 1)
    await poll(() => b.sums.isWriter, 'B is the writer', 10_000)
    await poll(async () => (await total()) === 126, 'B writes')
    t.match(await c.running.readFresh([hour, week], Date.now()), [{ used: 126 }, { used: 126 }])
  })

  await t.test('sums that no double has survive losses and restarts', async (t) => {
    log(here, 2 ** 53 - 1)
    log(there, 2n ** 62n + 3n)
    const all = 126n + 2n ** 53n - 1n + 2n ** 62n + 3n
    await poll(async () => (await total()) === all, 'all of it is there')
    await valkey.client.flushall()
    t.equal(await c.running.stop(1_000), 0)
    const heir = await startProcess(t, { path: there, gateway: 'g2', valkey })
    await poll(() => heir.sums.isWriter, 'its heir has read the checkpoint', 10_000)
    await valkey.client.flushall()
    await poll(async () => (await total()) === all, 'after a second loss, too', 10_000)
    for (const { running } of [b, heir]) {
      t.match(await running.readFresh([hour, week], Date.now()), [{ used: all }, { used: all }])
    }
  })
})

root.test(
  'an outage of Redis while windows are read again is no fault',
  { skip: skipValkey },
  async (t) => {
    let aheadMs = 0
    const monotonic = () => performance.now() + aheadMs
    const valkey = await startValkey(t)
    const one = await startProcess(t, { path: folder(t), valkey, monotonic })
    await poll(() => one.sums.isWriter, 'it is the writer')
    t.equal(await one.used(), 0)
    aheadMs = 30_000
    t.equal(await one.used(), 0)
    await one.running.readFresh([hour], Date.now())
    await valkey.client.client('PAUSE', 60_000)
    // The window is in use, and was read a minute ago.
    aheadMs = 61_000
    await poll(() => one.running.isUnavailable, 'Redis is away')
    await delay(1_500)
    t.strictSame(one.faults, [])
  },
)

root.test(
  'windows that begin in an outage of Redis are unknown',
  { skip: skipValkey },
  async (t) => {
    const valkey = await startValkey(t)
    const [strict, lax] = await Promise.all(
      (['deny', 'allow'] as const).map((onLoss) =>
        startProcess(t, { path: folder(t), gateway: onLoss, valkey, onLoss }),
      ),
    )
    const second = { ...hour, key: 's\nm\n1s\nann', window: { ms: 1_000 } }
    const read = async (one = strict) => await one?.running.read([second], Date.now())
    const codes = new Set<string>()
    const beat = async () => {
      codes.add(
        await read().then(
          () => '',
          ({ code }) => code,
        ),
      )
      t.match(await read(lax), [{ used: 0 }])
      await delay(10)
    }
    for (let beats = 0; beats < 120; beats += 1) await beat()
    t.strictSame([...codes], [''])
    valkey.freeze()
    while (strict?.running.isUnavailable === false) await beat()
    codes.clear()
    for (let beats = 0; beats < 120; beats += 1) await beat()
    t.ok(codes.has('counters_unavailable'))
    valkey.thaw()
    await poll(() => read().then(Boolean, () => false), 'it is back')
  },
)

root.test('a folder that can’t be watched is looked at more often', async (t) => {
  const path = folder(t)
  mkdirSync(join(path, 'lines'))
  let [lists, end] = [0, () => {}]
  const real = openJournalFolder(join(path, 'lines'))
  const options = { path, onLoss: 'deny' } as const
  const watching = {
    ...real,
    list(isWanted?: (name: string) => boolean) {
      lists += 1
      return real.list(isWanted)
    },
    watch(onChange: Parameters<typeof real.watch>[0], onEnd: () => void) {
      end = onEnd
      return real.watch(onChange, onEnd)
    },
  }
  const one = await startProcess(t, options, watching)
  await poll(() => one.sums.isWriter, 'it writes')
  const since = async (ms: number): Promise<number> => {
    const before = lists
    await new Promise((settle) => setTimeout(settle, ms))
    return lists - before
  }
  const watched = await since(500)
  // As the system says where nobody may watch anything more.
  watching.watch = () => undefined
  end()
  const unwatched = await since(500)
  t.ok(unwatched > 2 * watched, `${unwatched} times, not ${watched}`)
  log(path, 3)
  await poll(() => one.sums.shared.read(hour, Date.now()).used === 3, 'lines are read')
})
