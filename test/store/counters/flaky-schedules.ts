import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Counter } from '../../../src/core/decision/counter.ts'
import type { Report } from '../../../src/store/counters.ts'
import { startFlakyProxy } from '../../support/flaky-proxy.ts'
import { createRandom } from '../../support/random.ts'
import { createReplica, redisKey } from '../../support/redis-world.ts'
import type { RunningValkey } from '../../support/valkey.ts'

/** The result of one schedule. */
export interface Outcome {
  readonly seed: number
  /** What was added to each counter, and what Redis has in the end. */
  readonly added: readonly number[]
  readonly stored: readonly number[]
  /** The sums that each replica reports in the end. */
  readonly believed: readonly (readonly number[])[]
  /** Violations of the rules that hold at every moment. */
  readonly breaches: readonly string[]
  readonly mishaps: Readonly<Record<string, number>>
}

/** The time-out of calls without an answer, in these tests. */
const timeoutMs = 80
/** Windows that do not end during a schedule. */
const long = 600_000

/** By how many rounds the two sources may report a response apart. */
const maxLag = 12

/**
 * Runs replicas that add random tokens to shared counters, each over a connection of its own on
 * which answers are lost, delayed and cut, and requests arrive late, twice or out of order. Some
 * additions belong to responses: the journal reports each of them to one replica, once or more, and
 * the stream to another one, earlier, later or never. In every third schedule all additions do, and
 * one replica dies with what it has. Windows are `windowMs` long; the model is one sum per counter.
 */
export async function runSchedule(
  t: Pick<Test, 'teardown'>,
  valkey: RunningValkey,
  seed: number,
  windowMs: number,
): Promise<Outcome> {
  const random = createRandom(seed)
  const counters = Array.from(
    { length: 1 + random.below(6) },
    (_, i): Counter => ({
      key: `basic\nllm/small\n${windowMs}\n${seed} ${windowMs} ${i}`,
      windowMs,
    }),
  )
  const added = counters.map(() => 0)
  const hasDeath = seed % 3 === 0
  /** The reports of each round. */
  const tellings = new Map<number, (() => void)[]>()
  const breaches: string[] = []
  const replicas = await Promise.all(
    Array.from({ length: (hasDeath ? 2 : 1) + random.below(3) }, async (_, i) => {
      const proxy = await startFlakyProxy(t, valkey.port, createRandom(seed * 8 + i))
      const flushMs = 1 + random.below(8)
      const replica = await createReplica({ url: proxy.url, flushMs, timeoutMs })
      // A report of the stream counts here at once, even if the journal came first.
      return { proxy, ...replica, streamed: counters.map(() => 0) }
    }),
  )
  const victim = hasDeath ? replicas.at(-1) : undefined
  const deathIn = 1 + random.below(10)
  let round = 0

  /** How often each response was reported as counted. */
  const counted = new Map<string, number>()

  function tellOfResponse(): void {
    const which = counters.map((_, i) => i).filter(() => random.below(2) === 0)
    const tokens = 1 + random.below(1_000)
    const named = `response ${seed} ${windowMs} ${random.below(2 ** 31)}`
    const id = random.below(4) === 0 ? named : randomUUID()
    const endedAt = Date.now() - random.below(windowMs >= long ? 5_000 : 50)
    for (const i of which) added[i] = (added[i] as number) + tokens
    counted.set(id, 0)
    const onCounted = () => counted.set(id, (counted.get(id) as number) + 1)
    const tell = (by: Report['by'], replica: (typeof replicas)[number], laterBy: number): void => {
      const at = round + laterBy
      const due = tellings.get(at) ?? []
      tellings.set(at, due)
      due.push(() => {
        if (by === 'stream') {
          for (const i of which) replica.streamed[i] = (replica.streamed[i] as number) + tokens
        }
        const hit = which.map((i) => counters[i] as Counter)
        const off = (random.below(3) - 1) / 2
        replica.counters.add(hit, tokens, Date.now(), { id, endedAt: endedAt + off, by, onCounted })
      })
    }
    const any = () => replicas[random.below(replicas.length)] as (typeof replicas)[number]
    const survivors = replicas.filter((replica) => replica !== victim)
    const survivor = () => survivors[random.below(survivors.length)] as (typeof replicas)[number]
    for (let times = random.below(3); times > 0; times -= 1) {
      const streamedTo = any()
      const laterBy = random.below(maxLag)
      if (streamedTo !== victim || round + laterBy < deathIn) tell('stream', streamedTo, laterBy)
    }
    for (let times = 1 + random.below(2); times > 0; times -= 1) {
      tell('journal', survivor(), random.below(maxLag))
    }
  }

  const compare = async (): Promise<void> => {
    for (const { counters: store, streamed } of replicas) {
      const now = Date.now()
      const states = store.read(counters, now)
      if (states instanceof Promise) continue
      for (const [i, state] of states.entries()) {
        if (state === undefined) continue
        const most = (added[i] as number) + (streamed[i] as number)
        if (state.used > most) breaches.push(`${state.used} believed, ${most} added`)
        if (state.resetsAt > now + windowMs + 1) breaches.push('a window longer than its length')
      }
    }
    for (const [i, counter] of counters.entries()) {
      const [[, used], [, leftMs]] = (await valkey.client
        .multi()
        .get(redisKey(counter))
        .pttl(redisKey(counter))
        .exec()) as [[null, string | null], [null, number]]
      const most = added[i] as number
      if (Number(used) > most) breaches.push(`${used} stored, ${most} added`)
      if (leftMs === -1 || leftMs > windowMs) breaches.push(`${leftMs} ms left`)
    }
  }

  const rounds = 10 + random.below(20)
  for (; round < rounds + maxLag; round += 1) {
    if (round === deathIn) victim?.connection.close()
    for (const { counters: store } of replicas) {
      for (let i = random.below(4); i > 0 && round < rounds; i -= 1) {
        if (hasDeath || random.below(2) === 0) {
          tellOfResponse()
          continue
        }
        const which = random.below(counters.length)
        const tokens = 1 + random.below(1_000)
        store.add([counters[which] as Counter], tokens, Date.now())
        added[which] = (added[which] as number) + tokens
      }
    }
    for (const tell of tellings.get(round) ?? []) tell()
    if (random.below(3) === 0) await compare()
    await delay(random.below(20))
  }

  await Promise.all(replicas.map(({ proxy }) => proxy.heal()))
  const living = replicas.filter((replica) => replica !== victim)
  await Promise.all(living.map((replica) => replica.counters.kept()))
  await compare()
  const stored = (await valkey.client.mget(counters.map(redisKey))).map(Number)
  const believed = await Promise.all(
    living.map(async (replica) => {
      // Each read requests the sum again, so that the replica comes to know what is stored.
      const giveUpAt = performance.now() + (windowMs >= long ? 10_000 : 0)
      for (;;) {
        const used = (await replica.used(...counters)).map((each) => each ?? 0)
        if (used.join() === stored.join() || performance.now() > giveUpAt) return used
        await delay(5)
      }
    }),
  )
  for (const replica of replicas) {
    await replica.close()
    await replica.proxy.close()
  }
  const mishaps: Record<string, number> = {}
  for (const { proxy } of replicas) {
    for (const [name, count] of Object.entries(proxy.done)) {
      mishaps[name] = (mishaps[name] ?? 0) + count
    }
  }
  const told = [...counted.values()]
  const lost = hasDeath ? [] : told.filter((times) => times === 0)
  if (lost.length > 0) breaches.push(`${lost.length} responses counted for nobody`)
  const doubled = told.filter((times) => times > 1)
  if (doubled.length > 0) breaches.push(`${doubled.length} responses counted for more than one`)
  return { seed, added, stored, believed, breaches, mishaps }
}

/** Claims it for `count` schedules from `seed` on, some of them concurrently. */
export async function claimExactlyOnce(
  t: Test,
  valkey: RunningValkey,
  { seed, count, windowMs }: { seed: number; count: number; windowMs: number },
): Promise<void> {
  t.comment(`seeds ${seed} to ${seed + count - 1}, windows of ${windowMs} ms`)
  const total: Record<string, number> = {}
  let next = 0
  const work = async (): Promise<void> => {
    while (next < count) {
      next += 1
      const outcome = await runSchedule(t, valkey, seed + next - 1, windowMs)
      const { added, stored, believed, breaches, mishaps } = outcome
      t.strictSame(breaches, [], `seed ${outcome.seed}: nothing counted twice, no window too long`)
      if (windowMs >= long) {
        t.strictSame(stored, added, `seed ${outcome.seed}: the sums are exact`)
        for (const each of believed) t.strictSame(each, added, 'every replica knows the sums')
      }
      for (const [name, times] of Object.entries(mishaps)) total[name] = (total[name] ?? 0) + times
    }
  }
  await Promise.all(Array.from({ length: 12 }, work))
  t.comment(JSON.stringify(total))
  for (const [name, times] of Object.entries(total)) t.ok(times > 0, `${name} has occurred`)
}
