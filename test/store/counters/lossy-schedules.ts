import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Counter } from '../../../src/core/decision/counter.ts'
import type { Report } from '../../../src/store/counters.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'
import { createReplica } from '../../support/redis-world.ts'
import type { LossKind, LossWorld } from './loss-worlds.ts'

/** The result of one schedule, summed over its counters. */
export interface LossOutcome {
  /** Used while nothing was lost, and from the beginning of each loss to its end. */
  readonly between: number
  readonly during: number
  /** By how much Redis has less in the end than was used. */
  readonly missing: number
  /** The most by which a server had more than was used. */
  readonly over: number
  readonly kinds: readonly LossKind[]
}

const windowMs = 3_600_000
const timeoutMs = 80

interface Told {
  readonly report: Omit<Report, 'by'>
  readonly hit: readonly Counter[]
  readonly tokens: number
}

/**
 * Replicas share counters, over faulty connections where the world has them. Redis loses data two
 * or three times, one loss soon after the other or once all is restored, while they go on, another
 * replica starts, one may die, and the journal reports every response again. Claims that no sum
 * ever exceeds what was used, that it falls short by no more than what was used during the losses,
 * and that it is exact between them.
 */
async function runLosses(t: Test, world: LossWorld, seed: number): Promise<LossOutcome> {
  const open: LossyReplica[] = []
  try {
    return await playLosses(t, world, seed, open)
  } finally {
    // One that timed out has all of them left, which would keep the process from ending.
    await Promise.all(open.map((replica) => replica.close()))
  }
}

type LossyReplica = Awaited<ReturnType<typeof createReplica>>

/** The schedule itself; the replicas that it leaves behind are in `replicas`. */
async function playLosses(
  t: Test,
  world: LossWorld,
  seed: number,
  replicas: LossyReplica[],
): Promise<LossOutcome> {
  await world.clear()
  const random = createRandom(seed)
  const chance = (of: number): boolean => random.below(of) === 0
  const counters = Array.from(
    { length: 1 + random.below(5) },
    (_, i): Counter => ({ key: `basic\nllm/small\n${windowMs}\n${seed} ${i}`, windowMs }),
  )
  const used = new Map(counters.map((counter) => [counter, 0]))
  const streamed = new Map(counters.map((counter) => [counter, 0]))
  const written: Told[] = []
  const kinds: LossKind[] = []
  const title = () => `seed ${seed}, ${kinds.join(', ') || 'before any loss'}`
  let over = 0
  let between = 0
  let during = 0

  async function begin() {
    const connection = await world.connect(createRandom(random.below(2 ** 31)))
    const flushMs = 1 + random.below(8)
    const { youngMs } = world
    const replica = await createReplica({
      ...{ url: connection.url, flushMs, timeoutMs, youngMs, journal: 'j' },
      connect: false,
    })
    const { close } = replica
    return Object.assign(replica, {
      close: async () => void (await Promise.all([close(), connection.close()])),
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

  function everySum(): readonly number[] {
    return counters.map((each) => used.get(each) as number)
  }

  async function compare(): Promise<void> {
    const highest = await world.highest(counters)
    const most = everySum()
    for (const [i, sum] of highest.entries()) {
      const excess = sum - (most[i] as number)
      if (excess <= over) continue
      over = excess
      t.fail(`${title()}: ${sum} stored, ${most[i]} used`)
    }
    for (const { counters: store } of replicas) {
      const states = store.read(counters, Date.now())
      if (states instanceof Promise) continue
      for (const [i, state] of states.entries()) {
        const least = (most[i] as number) + (streamed.get(counters[i] as Counter) as number)
        if ((state?.used ?? 0) > least) t.fail(`${title()}: ${state?.used} believed, ${least} used`)
      }
    }
  }

  async function round(): Promise<void> {
    for (let uses = random.below(5); uses > 0; uses -= 1) use()
    readJournal(false)
    if (chance(3)) await compare()
    await delay(random.below(12))
  }

  async function rounds(count: number): Promise<void> {
    for (let left = count; left > 0; left -= 1) await round()
  }

  /** Waits until Redis has everything that it should have, and every replica knows it. */
  async function settle(): Promise<readonly number[]> {
    readJournal(true)
    await Promise.all(replicas.map((replica) => replica.counters.kept()))
    let sums: readonly number[] = []
    await poll(
      async () => {
        sums = await world.stored(counters)
        const believed = await Promise.all(replicas.map((replica) => replica.used(...counters)))
        return believed.every((each) => each.map((sum) => sum ?? 0).join() === sums.join())
      },
      `${title()}: all agree`,
      60_000,
    )
    await compare()
    return sums
  }

  /** Loses data once or more, with traffic before, during and after each loss. */
  async function lose(count: number): Promise<void> {
    const [joinsAt, diesAt] = [random.below(count), chance(2) ? random.below(count) : -1]
    for (let at = 0; at < count; at += 1) {
      const kind = world.kinds[random.below(world.kinds.length)] as LossKind
      kinds.push(kind)
      for (const step of world.stepsOf(kind, random)) {
        await Promise.all([step(), rounds(1 + random.below(4))])
        await rounds(random.below(4))
      }
      if (at === joinsAt) replicas.push(await begin())
      if (at === diesAt && replicas.length > 2) {
        const [dead] = replicas.splice(1 + random.below(replicas.length - 1), 1)
        await dead?.close()
      }
      // The next one meets a store that is being restored, or takes reports again.
      const until = performance.now() + random.below(chance(2) ? 300 : world.youngMs + 1_000)
      while (performance.now() < until) await round()
    }
  }

  await rounds(5 + random.below(10))
  let stored = await settle()
  if (stored.join() !== everySum().join())
    t.fail(`${title()}: ${stored} stored, ${everySum()} used`)
  if (replicas.some(({ losses }) => losses > 0)) t.fail(`${title()}: a loss was assumed`)
  between += total(everySum())

  const losses = 2 + random.below(2)
  while (kinds.length < losses) {
    // A loss since then is noticed, because one that lives has added to each of them.
    reader.counters.add(counters, 1, Date.now())
    for (const each of counters) used.set(each, 1 + (used.get(each) as number))
    const before = await settle()
    const usedBefore = everySum()
    await lose(chance(2) ? 1 : losses - kinds.length)
    await settle()
    // As when the journal is copied and truncated: the copy is an unknown file.
    for (const told of written) tell(told, 'journal', reader)
    stored = await settle()
    const usedNow = everySum()
    during += total(usedNow) - total(usedBefore)
    for (const [i, sum] of stored.entries()) {
      const [least, most] = [before[i] as number, usedNow[i] as number]
      if (sum < least || sum > most) t.fail(`${title()}: ${least} <= ${sum} <= ${most}`)
    }

    // Longer than the times of the two sources may differ.
    await delay(30)
    await rounds(5)
    const last = await settle()
    const usedLast = everySum()
    const expected = usedLast.map((sum, i) => (stored[i] as number) + sum - (usedNow[i] as number))
    if (last.join() !== expected.join()) {
      t.fail(`${title()}: ${last} after it instead of ${expected}`)
    }
    between += total(usedLast) - total(usedNow)
    stored = last
  }
  return { between, during, missing: total(everySum()) - total(stored), over, kinds }
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0)
}

/**
 * Claims it for `count` schedules from `seed` on, in as many worlds at a time as there are in
 * `worlds`.
 */
export async function claimLosses(
  t: Test,
  {
    seed,
    count,
    worlds,
  }: { seed: number; count: number; worlds: readonly (() => Promise<LossWorld>)[] },
): Promise<void> {
  t.comment(`seeds ${seed} to ${seed + count - 1}`)
  let next = seed
  const outcomes: LossOutcome[] = []
  const work = async (create: () => Promise<LossWorld>): Promise<void> => {
    const world = await create()
    while (next < seed + count) {
      next += 1
      outcomes.push(await runLosses(t, world, next - 1))
    }
  }
  const ended = await Promise.allSettled(worlds.map(work))
  for (const each of ended) if (each.status === 'rejected') throw each.reason
  const sum = (figure: 'between' | 'during' | 'missing' | 'over') =>
    total(outcomes.map((outcome) => outcome[figure]))
  t.comment(
    `${outcomes.length} schedules: ${sum('between')} tokens between losses, ${sum('during')} ` +
      `during them; ${sum('missing')} missing in the end, over by ${sum('over')} in ` +
      `${outcomes.filter(({ over }) => over > 0).length}`,
  )
  const times = new Map<LossKind, number>()
  for (const kind of outcomes.flatMap(({ kinds }) => kinds)) {
    times.set(kind, 1 + (times.get(kind) ?? 0))
  }
  t.comment(JSON.stringify(Object.fromEntries(times)))
  t.equal(sum('over'), 0, 'no sum was ever too high')
}
