import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Counter } from '../../../src/core/counter.ts'
import type { Report } from '../../../src/store/counters.ts'
import { startFlakyProxy } from '../../support/flaky-proxy.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'
import { createReplica, redisKey } from '../../support/redis-world.ts'
import { type RunningValkey, startValkey } from '../../support/valkey.ts'

/** The result of one schedule, summed over its counters. */
export interface LossOutcome {
  /** Used before, during and after the loss. */
  readonly before: number
  readonly during: number
  readonly after: number
  /** By how much Redis has less in the end than was used. */
  readonly missing: number
  readonly kind: LossKind
}

/** Everything is lost, or everything since an earlier moment. */
type LossKind = 'empty' | 'older'

const windowMs = 3_600_000
const timeoutMs = 80
/** How long a new store takes no reports, in these tests. */
const youngMs = 2_000

interface Told {
  readonly report: Omit<Report, 'by'>
  readonly hit: readonly Counter[]
  readonly tokens: number
}

/**
 * Replicas share counters over faulty connections, as in flaky-schedules.ts. First they count until
 * Redis has everything. Then Redis loses its data while they go on, another replica starts, one may
 * die, and the journal reports every response again. Then they go on. Claims that no sum ever
 * exceeds what was used, and that in the end it falls short by no more than what was used during
 * the loss.
 */
async function runLoss(t: Test, valkey: RunningValkey, seed: number): Promise<LossOutcome> {
  const open: LossyReplica[] = []
  try {
    return await playLoss(t, valkey, seed, open)
  } finally {
    // One that timed out has all of them left, which would keep the process from ending.
    await Promise.all(open.map((replica) => replica.close()))
  }
}

type LossyReplica = Awaited<ReturnType<typeof createReplica>>

/** The schedule itself; the replicas that it leaves behind are in `replicas`. */
async function playLoss(
  t: Test,
  valkey: RunningValkey,
  seed: number,
  replicas: LossyReplica[],
): Promise<LossOutcome> {
  await valkey.client.flushall()
  const random = createRandom(seed)
  const chance = (of: number): boolean => random.below(of) === 0
  const counters = Array.from(
    { length: 1 + random.below(5) },
    (_, i): Counter => ({ key: `basic\nllm/small\n${windowMs}\n${seed} ${i}`, windowMs }),
  )
  const used = new Map(counters.map((counter) => [counter, 0]))
  const streamed = new Map(counters.map((counter) => [counter, 0]))
  const written: Told[] = []
  const title = `seed ${seed}`
  const kind: LossKind = chance(2) ? 'empty' : 'older'

  async function begin() {
    const proxy = await startFlakyProxy(t, valkey.port, createRandom(random.below(2 ** 31)))
    const flushMs = 1 + random.below(8)
    const url = proxy.url
    const replica = await createReplica({ url, flushMs, timeoutMs, youngMs, journal: 'j' })
    const { close } = replica
    return Object.assign(replica, {
      close: async () => void (await Promise.all([close(), proxy.close()])),
    })
  }
  replicas.push(...(await Promise.all(Array.from({ length: 2 + random.below(2) }, begin))))
  const any = () => replicas[random.below(replicas.length)] as LossyReplica
  /** The replica that reads the journal does not die in these schedules. */
  const [reader] = replicas as [LossyReplica]
  let isRead = 0

  function tell({ report, hit, tokens }: Told, by: Report['by'], to: LossyReplica) {
    to.counters.add(hit, tokens, Date.now(), { ...report, by })
    if (by === 'journal') return
    for (const each of hit) streamed.set(each, tokens + (streamed.get(each) as number))
  }

  function use(): void {
    const hit = counters.filter(() => chance(2))
    const tokens = 1 + random.below(1_000)
    for (const each of hit) used.set(each, tokens + (used.get(each) as number))
    if (chance(2)) {
      any().counters.add(hit, tokens, Date.now())
      return
    }
    const told = { report: { id: randomUUID(), endedAt: Date.now() }, hit, tokens }
    written.push(told)
    if (!chance(4)) tell(told, 'stream', any())
  }

  /** The journal lags, and parts of it are read twice. */
  function readJournal(all: boolean): void {
    while (isRead < written.length && (all || chance(3))) {
      tell(written[isRead] as Told, 'journal', reader)
      isRead += 1
    }
  }

  async function stored(): Promise<number[]> {
    return (await valkey.client.mget(counters.map(redisKey))).map(Number)
  }

  async function look(): Promise<void> {
    const most = counters.map((each) => used.get(each) as number)
    for (const [i, sum] of (await stored()).entries()) {
      if (sum > (most[i] as number)) t.fail(`${title}: ${sum} stored, ${most[i]} used`)
    }
    for (const { counters: store } of replicas) {
      const states = store.read(counters, Date.now())
      if (states instanceof Promise) continue
      for (const [i, state] of states.entries()) {
        const least = (most[i] as number) + (streamed.get(counters[i] as Counter) as number)
        if ((state?.used ?? 0) > least) t.fail(`${title}: ${state?.used} believed, ${least} used`)
      }
    }
  }

  async function rounds(count: number, each: (round: number) => unknown): Promise<void> {
    for (let round = 0; round < count; round += 1) {
      await each(round)
      for (let uses = random.below(5); uses > 0; uses -= 1) use()
      readJournal(false)
      if (chance(3)) await look()
      await delay(random.below(12))
    }
    readJournal(true)
  }

  /** Waits until Redis has everything that it should have, and every replica knows it. */
  async function settle(): Promise<number[]> {
    await Promise.all(replicas.map((replica) => replica.counters.kept()))
    await poll(
      async () => {
        const sums = (await stored()).join()
        const believed = await Promise.all(replicas.map((replica) => replica.used(...counters)))
        return believed.every((each) => each.map((sum) => sum ?? 0).join() === sums)
      },
      `${title}: all agree`,
      60_000,
    )
    await look()
    return stored()
  }

  await rounds(5 + random.below(10), () => {})
  const before = await settle()
  t.strictSame(before, [...used.values()], `${title}: exact before`)
  t.ok(
    replicas.every(({ losses }) => losses === 0),
    `${title}: no loss was assumed`,
  )

  const count = 8 + random.below(10)
  const [copyAt, loseAt] = [random.below(4), 4 + random.below(4)]
  const [joinsAt, diesAt] = [random.below(count), chance(2) ? random.below(count) : -1]
  let copy: readonly Copied[] = []
  await rounds(count, async (round) => {
    if (round === copyAt && kind === 'older') copy = await copyAll(valkey)
    if (round === loseAt) await loseAll(valkey, copy)
    if (round === joinsAt) replicas.push(await begin())
    if (round === diesAt) {
      const [dead] = replicas.splice(1 + random.below(replicas.length - 1), 1)
      await dead?.close()
    }
  })
  await settle()
  const during = [...used.values()]
  // As when the journal is copied and truncated: the copy is an unknown file.
  for (const told of written) tell(told, 'journal', reader)
  const afterwards = await settle()
  for (const [i, sum] of afterwards.entries()) {
    const [least, most] = [before[i] as number, used.get(counters[i] as Counter) as number]
    t.ok(least <= sum && sum <= most, `${title}, ${kind}: ${least} <= ${sum} <= ${most}`)
  }
  // An older copy is recognized only by additions made since.
  if (kind === 'empty') t.ok(reader.losses > 0, `${title}: the loss was noticed`)

  // Longer than the times of the two sources may differ.
  await delay(30)
  await rounds(5, () => {})
  const last = await settle()
  const expected = counters.map(
    (each, i) => (afterwards[i] as number) + (used.get(each) as number) - (during[i] as number),
  )
  t.strictSame(last, expected, `${title}: exact after it`)
  const [usedBefore, usedDuring, usedAll] = [before, during, [...used.values()]].map(sum) as [
    number,
    number,
    number,
  ]
  return {
    before: usedBefore,
    during: usedDuring - usedBefore,
    after: usedAll - usedDuring,
    missing: usedAll - sum(last),
    kind,
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

type Copied = readonly [key: string, leftMs: number, value: Buffer]

async function copyAll({ client }: RunningValkey): Promise<readonly Copied[]> {
  const copied: Copied[] = []
  for (const key of await client.keys('*')) {
    const value = await client.dumpBuffer(key)
    if (value !== null) copied.push([key, Math.max(0, await client.pttl(key)), value])
  }
  return copied
}

/** At once, as a restart would. */
async function loseAll({ client }: RunningValkey, copy: readonly Copied[]): Promise<void> {
  const loss = client.multi().flushall()
  for (const [key, leftMs, value] of copy) loss.restore(key, leftMs, value)
  await loss.exec()
}

/** Claims it for `count` schedules from `seed` on, some of them concurrently. */
export async function claimLosses(
  t: Test,
  { seed, count }: { seed: number; count: number },
): Promise<void> {
  t.comment(`seeds ${seed} to ${seed + count - 1}`)
  let next = seed
  const outcomes: LossOutcome[] = []
  const work = async (): Promise<void> => {
    const valkey = await startValkey(t)
    while (next < seed + count) {
      next += 1
      outcomes.push(await runLoss(t, valkey, next - 1))
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: Math.min(6, count) }, work))
  for (const each of ended) if (each.status === 'rejected') throw each.reason
  for (const kind of ['empty', 'older'] as const) {
    const of = outcomes.filter((outcome) => outcome.kind === kind)
    const total = (figure: 'before' | 'during' | 'after' | 'missing') =>
      sum(of.map((outcome) => outcome[figure]))
    t.comment(
      `${of.length} times ${kind}: ${total('before')} tokens before, ${total('during')} during the ` +
        `loss, ${total('after')} after it; ${total('missing')} missing in the end`,
    )
  }
}
