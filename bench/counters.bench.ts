/**
 * What counters shared through Redis cost, with a real Valkey on this machine: additions, Redis
 * commands, memory, responses that are counted once, a Check compared with one with counters in
 * memory, and by how much four replicas exceed a limit. `node bench/counters.bench.ts` runs only
 * this file.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Counter } from '../src/core/decision/counter.ts'
import { createMemoryCounters } from '../src/store/counters/memory.ts'
import { poll } from '../test/support/poll.ts'
import { createReplica, type Replica } from '../test/support/redis-world.ts'
import { type RunningValkey, startValkey } from '../test/support/valkey.ts'
import { findValkey } from '../test/support/valkey-binary.ts'
import { createWarmCheck, type ServedLoad, serveCheck } from './check.bench.ts'
import { cpuMicros, type Figure } from './measure.ts'

const flushMs = 5
const day = 86_400_000

function countersOf(name: string, count: number): readonly Counter[] {
  return Array.from({ length: count }, (_, i) => ({
    key: `team-premium\nllm/model-${i % 10}\n${day}\n${name}-${i}@example.com`,
    windowMs: day,
  }))
}

export async function benchCounters(): Promise<readonly Figure[]> {
  process.env.VALKEY_PATH = await findValkey(process.env)
  const ends: (() => unknown)[] = []
  const owner = { teardown: (end: () => unknown) => void ends.push(end) }
  const valkey = await startValkey(owner)
  try {
    return [
      ...(await measureMemory(valkey)),
      ...(await measureAdditions(valkey)),
      ...(await measureReports(valkey)),
      ...(await measureOvershoot(valkey)),
      ...(await measureCheck(valkey)),
    ]
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

async function using<Answer>(
  valkey: RunningValkey,
  work: (replica: Replica) => Promise<Answer>,
): Promise<Answer> {
  await valkey.client.flushall()
  const replica = await createReplica({ url: valkey.url, flushMs })
  try {
    return await work(replica)
  } finally {
    await replica.close()
  }
}

/** Additions to 2,000 counters: as many as possible, and at a steady pace. */
async function measureAdditions(valkey: RunningValkey): Promise<readonly Figure[]> {
  const counters = countersOf('user', 2_000)
  const figures: Figure[] = []
  await using(valkey, async (replica) => {
    const add = async (additions: number): Promise<void> => {
      for (let i = 0; i < additions; i += 1) {
        replica.counters.add([counters[(i * 7_919) % counters.length] as Counter], 100, 0)
        // A turn of the event loop, as between gRPC messages.
        if (i % 200 === 199) await new Promise(setImmediate)
      }
      await replica.flushed()
    }
    await add(200_000)
    const [begin, sent, startedAt] = [
      process.cpuUsage(),
      replica.connection.sent,
      performance.now(),
    ]
    await add(1_000_000)
    const perSecond = 1e12 / cpuMicros(begin)
    const commands = replica.connection.sent - sent
    const seconds = (performance.now() - startedAt) / 1_000
    figures.push(
      {
        name: 'counters in Redis: additions per second and core',
        value: `${Math.round(perSecond).toLocaleString('en')}`,
      },
      {
        name: `  commands per 1,000 at ${Math.round(1_000 / seconds)} k/s`,
        value: (commands / 1_000).toFixed(1),
      },
    )
  })
  for (const perSecond of [1_000, 5_000, 20_000]) {
    await using(valkey, async (replica) => {
      await replica.used(...counters)
      const sent = replica.connection.sent
      const responses = 3 * perSecond
      await steadily(perSecond, responses, (i) => {
        const counter = counters[(i * 7_919) % counters.length] as Counter
        replica.counters.read([counter], Date.now())
        replica.counters.add([counter], 100, 0)
      })
      await replica.flushed()
      figures.push({
        name: `  commands per 1,000 responses, ${perSecond} responses a second`,
        value: ((1_000 * (replica.connection.sent - sent)) / responses).toFixed(1),
      })
    })
  }
  return figures
}

/** Additions with the id of their response: reported by the stream, then again by the journal. */
async function measureReports(valkey: RunningValkey): Promise<readonly Figure[]> {
  const counters = countersOf('user', 2_000)
  const count = 100_000
  return using(valkey, async (replica) => {
    const tell = async (by: 'stream' | 'journal', ids: readonly string[]): Promise<number> => {
      const [begin, endedAt] = [process.cpuUsage(), Date.now()]
      for (const [i, id] of ids.entries()) {
        const hit = [counters[(i * 7_919) % counters.length] as Counter]
        replica.counters.add(hit, 100, 0, { id, endedAt, by })
        // As many as fit in a batch, with time to send it.
        if (i % 200 === 199) await replica.counters.kept()
      }
      await replica.counters.kept()
      return cpuMicros(begin) / ids.length
    }
    const idsOf = () => Array.from({ length: count }, () => randomUUID())
    await tell('stream', idsOf())
    const before = await usedBy(valkey)
    const ids = idsOf()
    const streamed = await tell('stream', ids)
    const bytes = ((await usedBy(valkey)) - before) / count
    const journaled = await tell('journal', ids)
    return [
      {
        name: 'a response counted once: reported by the stream / by the journal',
        value: `${streamed.toFixed(1)} / ${journaled.toFixed(1)} µs CPU`,
      },
      { name: '  what Redis remembers of it', value: `${bytes.toFixed(0)} bytes` },
    ]
  })
}

async function usedBy(valkey: RunningValkey): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await valkey.client.info('memory'))?.[1])
}

async function steadily(perSecond: number, count: number, work: (i: number) => void) {
  const startedAt = performance.now()
  for (let next = 0; next < count; ) {
    const due = Math.min(count, ((performance.now() - startedAt) * perSecond) / 1_000)
    for (; next < due; next += 1) work(next)
    await delay(1)
  }
}

/** Memory of 100,000 counters, scaled to a million. */
async function measureMemory(valkey: RunningValkey): Promise<readonly Figure[]> {
  const count = 100_000
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  return using(valkey, async (replica) => {
    await replica.used(...countersOf('warm', 1_000))
    collect()
    const before = { redis: await usedBy(valkey), service: process.memoryUsage().heapUsed }
    for (let i = 0; i < count; i += 500) {
      const some = countersOf(`user-${i}`, 500)
      replica.counters.add(some, 20_000, 0)
      if (i % 10_000 === 0) await replica.flushed()
    }
    await replica.flushed()
    await delay(100)
    collect()
    const megabytes = (bytes: number): string =>
      `${Math.round((bytes * (1_000_000 / count)) / 1e6)} MB`
    return [
      {
        name: 'memory of a million counters, in Redis',
        value: megabytes((await usedBy(valkey)) - before.redis),
      },
      {
        name: '  in the service',
        value: megabytes(process.memoryUsage().heapUsed - before.service),
      },
    ]
  })
}

/** Four replicas admit requests of one token each until all of them refuse. */
async function measureOvershoot(valkey: RunningValkey): Promise<readonly Figure[]> {
  const replicas = 4
  const limit = 1_000
  const perSecond = 20_000
  const rounds = 30
  const all = await Promise.all(
    Array.from({ length: replicas }, () => createReplica({ url: valkey.url, flushMs })),
  )
  const overshoots: number[] = []
  const trips: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const [named] = countersOf(`overshoot-${round}`, 1) as [Counter]
    const counter = { ...named, limit }
    await Promise.all(all.map((replica) => replica.used(counter)))
    let admitted = 0
    await steadily(perSecond, perSecond / 5, (i) => {
      const { counters } = all[i % replicas] as Replica
      const states = counters.read([counter], Date.now())
      if (states instanceof Promise || (states[0]?.used ?? 0) >= limit) return
      counters.add([counter], 1, 0)
      admitted += 1
    })
    const begin = performance.now()
    await valkey.client.ping()
    trips.push(performance.now() - begin)
    overshoots.push(admitted - limit)
  }
  for (const replica of all) await replica.close()
  overshoots.sort((a, b) => a - b)
  trips.sort((a, b) => a - b)
  const tripMs = trips[rounds >> 1] as number
  // A replica knows what it has admitted itself; it can miss only what the others have.
  const within = (ms: number): string => ((perSecond * ms) / 1_000).toFixed(0)
  return [
    {
      name: `overshoot of 4 replicas, ${perSecond} requests a second, median / most`,
      value: `${overshoots[rounds >> 1]} / ${overshoots.at(-1)} requests`,
    },
    {
      name: `  admitted within f + t / 2f + t (f ${flushMs} ms, t ${tripMs.toFixed(2)} ms)`,
      value: `${within(flushMs + tripMs)} / ${within(2 * flushMs + tripMs)} requests`,
    },
  ]
}

/**
 * The same Check with both kinds of counters, alternating, so that both run on the same machine
 * load.
 */
async function measureCheck(valkey: RunningValkey): Promise<readonly Figure[]> {
  await valkey.client.flushall()
  const replica = await createReplica({ url: valkey.url, flushMs })
  const warm = {
    memory: await createWarmCheck(createMemoryCounters()),
    redis: await createWarmCheck(replica.counters),
  }
  const servers = {
    memory: await serveCheck(warm.memory.check, warm.memory.messages),
    redis: await serveCheck(warm.redis.check, warm.redis.messages),
  }
  const kinds = ['memory', 'redis'] as const
  const busy: Record<(typeof kinds)[number], number[]> = { memory: [], redis: [] }
  const steady: Record<(typeof kinds)[number], ServedLoad[]> = { memory: [], redis: [] }
  for (let round = 0; round < 10; round += 1) {
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
      const { microsPerCall } = await servers[kind].run({ calls: 20_000, atOnce: 64 })
      const load = await servers[kind].run({ calls: 3_000, atOnce: 0, perSecond: 1_000 })
      // The first round of each is the warm-up.
      if (round === 0) continue
      busy[kind].push(microsPerCall)
      steady[kind].push(load)
    }
  }
  for (const kind of kinds) await servers[kind].stop()
  await poll(() => replica.counters.unflushed === 0, 'all is flushed')
  await replica.close()
  const median = (values: readonly number[]): number =>
    [...values].sort((a, b) => a - b)[values.length >> 1] as number
  const cpu = (kind: (typeof kinds)[number]): string => median(busy[kind]).toFixed(1)
  const p = (kind: (typeof kinds)[number], at: 'p50' | 'p99' | 'microsPerCall'): string =>
    median(steady[kind].map((load) => load[at])).toFixed(at === 'microsPerCall' ? 0 : 2)
  /** Compared within each round, in which the machine load is the same for both. */
  const moreThan = (memory: readonly number[], redis: readonly number[]): string => {
    const ratio = median(redis.map((value, i) => value / (memory[i] as number)))
    return `${ratio < 1 ? '' : '+'}${(100 * (ratio - 1)).toFixed(0)} %`
  }
  const cpuOf = (loads: readonly ServedLoad[]) => loads.map((load) => load.microsPerCall)
  return [
    {
      name: 'Check over gRPC, 64 at once: counters in memory / in Redis',
      value: `${cpu('memory')} / ${cpu('redis')} µs CPU, ${moreThan(busy.memory, busy.redis)}`,
    },
    {
      name: '  at 1,000 a second',
      value: `${p('memory', 'microsPerCall')} / ${p('redis', 'microsPerCall')} µs CPU, ${moreThan(
        cpuOf(steady.memory),
        cpuOf(steady.redis),
      )}`,
    },
    { name: '  its p50', value: `${p('memory', 'p50')} / ${p('redis', 'p50')} ms` },
    { name: '  its p99', value: `${p('memory', 'p99')} / ${p('redis', 'p99')} ms` },
  ]
}

if (import.meta.main) {
  const figures = await benchCounters()
  const width = Math.max(...figures.map(({ name }) => name.length))
  for (const { name, value } of figures) console.log(`${name.padEnd(width)}  ${value}`)
}
