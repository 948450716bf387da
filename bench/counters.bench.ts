/**
 * What counters shared through Redis cost, with a real Valkey on this machine: additions, Redis
 * commands, a flush, memory, a Check compared with one with counters in memory, and by how much four
 * gateways exceed a limit. `node bench/counters.bench.ts` runs only this file.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { windowKey } from '../src/ratelimit/redis/keys.ts'
import type { Counter } from '../src/ratelimit/rules/counter.ts'
import { type Calendar, parseWindowText, windowAt } from '../src/ratelimit/rules/windows.ts'
import { type CountingGateway, startCountingGateway } from '../test/support/counting-gateway.ts'
import { poll } from '../test/support/poll.ts'
import { createSharingGateway, type SharingGateway } from '../test/support/redis-world.ts'
import { type RunningValkey, startValkey } from '../test/support/valkey.ts'
import { findValkey } from '../test/support/valkey-binary.ts'
import { createWarmCheck, type ServedLoad, serveCheck } from './check.bench.ts'
import { cpuMicros, type Figure } from './measure.ts'

const flushMs = 5
const day = 86_400_000

function countersOf(name: string, count: number): readonly Counter[] {
  return Array.from({ length: count }, (_, i) => {
    const owner = `${name}-${i}@example.com`
    return {
      key: `team-premium\nllm/model-${i % 10}\n${day}\n${owner}`,
      owner,
      window: { ms: day },
    }
  })
}

export async function benchCounters(): Promise<readonly Figure[]> {
  process.env.VALKEY_PATH = await findValkey(process.env)
  const ends: (() => unknown)[] = []
  const owner = { teardown: (end: () => unknown) => void ends.push(end) }
  const valkey = await startValkey(owner)
  try {
    return [
      // First, with little for the garbage collector to visit.
      ...(await measureFlush(valkey)),
      ...(await measureMemory(valkey)),
      ...(await measureAdditions(valkey)),
      ...(await measurePools(valkey)),
      ...(await measureOvershoot(valkey)),
      ...(await measureCheck(valkey)),
    ]
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

/** A gateway whose lines are added without files. */
async function using<Answer>(
  valkey: RunningValkey,
  work: (gateway: SharingGateway) => Promise<Answer>,
): Promise<Answer> {
  await valkey.client.flushall()
  const gateway = await createSharingGateway({ url: valkey.url, flushMs })
  try {
    return await work(gateway)
  } finally {
    await gateway.close()
  }
}

/** Additions to 2,000 counters: as many as possible, and at a steady pace. */
async function measureAdditions(valkey: RunningValkey): Promise<readonly Figure[]> {
  const counters = countersOf('user', 2_000)
  const figures: Figure[] = []
  await using(valkey, async (gateway) => {
    const add = async (additions: number): Promise<void> => {
      for (let i = 0; i < additions; i += 1) {
        gateway.add([counters[(i * 7_919) % counters.length] as Counter], 100)
        // A turn of the event loop, as between slices of a file.
        if (i % 200 === 199) await new Promise(setImmediate)
      }
      await gateway.flushed()
    }
    await add(200_000)
    const [begin, sent, startedAt] = [
      process.cpuUsage(),
      gateway.connection.sent,
      performance.now(),
    ]
    await add(1_000_000)
    const perSecond = 1e12 / cpuMicros(begin)
    const commands = gateway.connection.sent - sent
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
    await valkey.client.flushall()
    const gateway = await startCountingGateway({ gateway: 'steady', url: valkey.url, flushMs })
    await gateway.counters.read(counters, Date.now())
    const sent = sentBy(gateway)
    const responses = 3 * perSecond
    await steadily(perSecond, responses, (i) => {
      const counter = counters[(i * 7_919) % counters.length] as Counter
      void gateway.counters.read([counter], Date.now())
      gateway.log({ at: Date.now(), amount: 100, counters: [counter] })
    })
    await poll(() => gateway.running.unflushed === 0, 'all is flushed')
    figures.push({
      name: `  commands per 1,000 responses, ${perSecond} responses a second`,
      value: ((1_000 * (sentBy(gateway) - sent)) / responses).toFixed(1),
    })
    await gateway.close()
  }
  return figures
}

function sentBy({ connection }: CountingGateway): number {
  return connection?.sent ?? 0
}

/** A call with 512 counters, each of which has grown. */
async function measureFlush(valkey: RunningValkey): Promise<readonly Figure[]> {
  const [counters, rounds] = [countersOf('flush', 512), 600]
  return using(valkey, async (gateway) => {
    const flush = async (): Promise<void> => {
      gateway.add(counters, 100)
      await gateway.refreshed()
    }
    // Until everything is compiled.
    for (let i = 0; i < 1_000; i += 1) await flush()
    const [redis, own] = [await costsOf(valkey), process.cpuUsage()]
    for (let i = 0; i < rounds; i += 1) await flush()
    const micros = cpuMicros(own) / rounds
    const now = await costsOf(valkey)
    const each = (name: keyof typeof now): number => (now[name] - redis[name]) / rounds
    return [
      {
        name: 'a flush of 512 counters that grow: CPU of Redis / of the service',
        value: `${Math.round(each('micros'))} / ${Math.round(micros)} µs`,
      },
      {
        name: '  KB there / back',
        value: `${(each('input') / 1e3).toFixed(0)} / ${(each('output') / 1e3).toFixed(0)}`,
      },
    ]
  })
}

/** Calls with one counter that many gateways use, whose sums may be of money. */
async function measurePools(valkey: RunningValkey): Promise<readonly Figure[]> {
  const rounds = 400
  const window = parseWindowText('month1@Europe/Zurich') as Calendar
  const pool: Counter = { key: 'team\n#month\ncost-month1@Europe/Zurich\n', owner: 'team', window }
  async function measure(gateways: number, each: bigint): Promise<string> {
    return using(valkey, async (gateway) => {
      const fields = new Map([['+', `${each * BigInt(gateways)}`]])
      for (let i = 0; i < gateways; i += 1) fields.set(`gateway${i}`, `${each}`)
      const key = windowKey('all', windowAt(pool, Date.now()))
      await valkey.client.hset(key, fields)
      const add = async (): Promise<void> => {
        for (let i = 0; i < rounds; i += 1) {
          gateway.add([pool], 100)
          await gateway.flushed()
        }
      }
      await add()
      const { micros } = await costsOf(valkey)
      await add()
      return (((await costsOf(valkey)).micros - micros) / rounds).toFixed(0)
    })
  }
  const few = await measure(1, 1_000_000n)
  const many = await measure(200, 1_000_000n)
  const large = await measure(200, 10n ** 16n)
  return [
    {
      name: 'a call with a pool of 2 / 201 gateways / the same, sums of 16 digits: CPU of Redis',
      value: `${few} / ${many} / ${large} µs`,
    },
  ]
}

/** CPU and bytes of the server since its start. */
async function costsOf({ client }: RunningValkey) {
  const info = `${await client.info('cpu')}${await client.info('stats')}`
  const figure = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1])
  return {
    // Without the threads that only wait for work.
    micros: 1e6 * (figure('used_cpu_sys_main_thread') + figure('used_cpu_user_main_thread')),
    input: figure('total_net_input_bytes'),
    output: figure('total_net_output_bytes'),
  }
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
  return using(valkey, async (gateway) => {
    await gateway.used(...countersOf('warm', 1_000))
    collect()
    const before = { redis: await usedBy(valkey), service: process.memoryUsage().heapUsed }
    for (let i = 0; i < count; i += 500) {
      const some = countersOf(`user-${i}`, 500)
      gateway.add(some, 20_000)
      if (i % 10_000 === 0) await gateway.flushed()
    }
    await gateway.flushed()
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

/** Four gateways admit requests of one token each until all of them refuse. */
async function measureOvershoot(valkey: RunningValkey): Promise<readonly Figure[]> {
  const gateways = 4
  const limit = 1_000
  // At a higher rate this single process could not read the others' sums.
  const perSecond = 4_000
  const rounds = 30
  const all = await Promise.all(
    Array.from({ length: gateways }, (_, i) =>
      startCountingGateway({ gateway: `overshoot${i}`, url: valkey.url, flushMs }),
    ),
  )
  const overshoots: number[] = []
  const trips: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const [named] = countersOf(`overshoot-${round}`, 1) as [Counter]
    const counter = { ...named, limit }
    await Promise.all(all.map(({ counters }) => counters.read([counter], Date.now())))
    let admitted = 0
    await steadily(perSecond, perSecond / 5, (i) => {
      const { counters, log } = all[i % gateways] as CountingGateway
      const states = counters.read([counter], Date.now())
      if (states instanceof Promise || (states[0]?.used ?? 0) >= limit) return
      log({ at: Date.now(), amount: 1, counters: [counter] })
      admitted += 1
    })
    const begin = performance.now()
    await valkey.client.ping()
    trips.push(performance.now() - begin)
    overshoots.push(admitted - limit)
  }
  for (const gateway of all) await gateway.close()
  overshoots.sort((a, b) => a - b)
  trips.sort((a, b) => a - b)
  const tripMs = trips[rounds >> 1] as number
  // A gateway knows the requests that it has admitted itself; it can miss only the others'.
  const within = (ms: number): string => ((perSecond * ms) / 1_000).toFixed(0)
  return [
    {
      name: `overshoot of 4 gateways, ${perSecond} requests a second, median / most`,
      value: `${overshoots[rounds >> 1]} / ${overshoots.at(-1)} requests`,
    },
    {
      name: `  admitted within f + t / 2f + t (f ${flushMs} ms, t ${tripMs.toFixed(2)} ms)`,
      value: `${within(flushMs + tripMs)} / ${within(2 * flushMs + tripMs)} requests`,
    },
  ]
}

/** A Check with both kinds of counters, alternating, so that both run under the same machine load. */
async function measureCheck(valkey: RunningValkey): Promise<readonly Figure[]> {
  await valkey.client.flushall()
  const [alone, shared] = [
    await startCountingGateway({ gateway: 'alone' }),
    await startCountingGateway({ gateway: 'shared', url: valkey.url, flushMs }),
  ]
  const warm = {
    memory: await createWarmCheck(alone.counters),
    redis: await createWarmCheck(shared.counters),
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
  await Promise.all([alone.close(), shared.close()])
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
