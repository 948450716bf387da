import { type Test, test } from 'tap'
import type { HoldStore } from '../../../src/ratelimit/holds.ts'
import type { Counter } from '../../../src/ratelimit/rules/counter.ts'
import { admitRequest } from '../../../src/ratelimit/rules/estimates/admit.ts'
import type { Expectation } from '../../../src/ratelimit/rules/estimates/estimator.ts'
import {
  type Factors,
  growHold,
  type HeldAmount,
  type HeldSums,
  noHolds,
  withHold,
} from '../../../src/ratelimit/rules/estimates/held-amounts.ts'
import { emptyHold, type Hold, type HoldResult } from '../../../src/ratelimit/rules/hold.ts'
import { windowAt } from '../../../src/ratelimit/rules/windows.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'
import { lasting } from '../../support/window-ends.ts'

/** A store of holds, the counters beside it, and its time. */
export interface HoldWorld {
  /** Whether counters of several subjects are decided together, and not one subject after the other. */
  readonly isJoint: boolean
  readonly holds: HoldStore
  /** The same as another process sees it; the same object if it is not shared. */
  readonly other: HoldStore
  readonly leaseMs: number
  /** The length of a window that ends within a test. */
  readonly shortMs: number
  now(): number
  /** Counts what a line has, of requests one. */
  use(counter: Required<Counter>, tokens: number): Promise<void>
  /** Waits until what was released is. */
  settled(): Promise<void>
  advance(ms: number): Promise<void>
  close(): Promise<void>
}

const hour = 3_600_000
const random = createRandom()
const small: Expectation = {
  ...{ input: 100, inputVariance: 100, output: 100, outputVariance: 100 },
  ...{ floor: 400, beyondRoom: 400, isSeveral: false, least: 1, worst: 1_000 },
}
let named = 0

function nextUser(): string {
  named += 1
  return lasting(`user ${named}`)
}

function counter(limit: number, windowMs = hour, user = nextUser()): Required<Counter> {
  return {
    key: `basic\nllm/small\n${windowMs}\n${user}`,
    owner: user,
    window: { ms: windowMs },
    limit,
  }
}

const ask = (id: string | undefined, ...counters: Required<Counter>[]): Hold => ({
  ...emptyHold,
  ...{ id, counters, expected: small, overshoot: 0.25, canLimitOutput: true, charge: 'admission' },
})

/** Limits on requests in windows, and on open requests (0 ms), of one user. */
function taking(limits: readonly (readonly [limit: number, windowMs: number])[], user: string) {
  return limits.map(([limit, windowMs]): Required<Counter> => {
    const part = windowMs > 0 ? `requests-${windowMs}` : 'concurrency'
    return {
      key: `basic\nllm/small\n${part}\n${user}`,
      owner: user,
      window: { ms: windowMs },
      limit,
    }
  })
}

/** A counter that others share: of a group's users, or of all of a model. */
function shared(counted: string, limit: number, whom: string, resource = 'basic') {
  const ms = Number(/\d+$/.exec(counted)?.[0] ?? 0)
  const key = `${resource}\n#all\n${counted}\n${whom}`
  return { key, owner: lasting(`${resource} ${whom}`), window: { ms }, limit }
}

/** Takes without holding tokens. */
const take = (id: string | undefined, requestCounters: readonly Required<Counter>[]): Hold => ({
  ...emptyHold,
  ...{ id, requestCounters },
})

function expectedAtRandom(): Expectation {
  const floorOfOne = 100 + random.below(600) / 3
  const choices = random.below(3) === 0 ? 1 + random.below(200) : 1
  return {
    ...{ input: random.below(500) / 3, inputVariance: random.below(5_000) / 7 },
    ...{ output: 1 + random.below(300) / 3, outputVariance: random.below(50_000) / 7 },
    ...{ floor: choices * floorOfOne, beyondRoom: floorOfOne, isSeveral: choices > 1 },
    least: choices * (random.below(9) === 0 ? 1 + random.below(5_000) : 1),
    worst: random.below(3) === 0 ? Number.POSITIVE_INFINITY : choices * (1 + random.below(5_000)),
  }
}

const usedOf = ({ windows }: HoldResult) => windows.map(({ used }) => used)

const heldOf = ({ windows }: HoldResult) => windows.map(({ held = 0 }) => held)

/** Waits until a window of the counter begins, so that it does not end too early. */
async function toBegin(world: HoldWorld, counter: Counter): Promise<void> {
  await world.advance(windowAt(counter, world.now()).end - world.now() + 1)
}

/** What follows from the line of a request: it counts as one, and holds nothing any more. */
async function end(world: HoldWorld, requestCounters: readonly Required<Counter>[], id: string) {
  for (const each of requestCounters) {
    if ('ms' in each.window && each.window.ms > 0) await world.use(each, 1)
  }
  for (const store of [world.holds, world.other]) store.release(requestCounters, id)
  await world.settled()
}

export function testHoldStore(name: string, createWorld: () => Promise<HoldWorld>): void {
  type Ask = (asked: Hold) => Promise<HoldResult>
  const claim = (
    title: string,
    body: (t: Test, world: HoldWorld & { hold: Ask }) => Promise<void>,
  ): void => {
    test(`${name}: ${title}`, async (t) => {
      const world = await createWorld()
      t.teardown(() => world.close())
      await body(t, { ...world, hold: async (asked) => world.holds.hold(asked, world.now()) })
    })
  }

  claim('a hold takes room until it is released', async (t, { hold, holds, settled }) => {
    const own = counter(10_000)
    const first = await hold(ask('a', own))
    t.equal(first.outcome, 'held')
    t.strictSame(heldOf(first), [200])
    t.strictSame(heldOf(await hold(ask('b', own))), [400])
    holds.release([own], 'a')
    await settled()
    t.strictSame(heldOf(await hold(ask(undefined, own))), [200])
  })

  claim('what only decides holds nothing', async (t, { hold }) => {
    const own = counter(10_000)
    t.equal((await hold(ask(undefined, own))).outcome, 'held')
    t.strictSame(heldOf(await hold(ask(undefined, own))), [0])
  })

  claim('a window ends where it does by time', async (t, { hold, now }) => {
    const own = counter(10_000)
    const { end } = windowAt(own, now())
    for (const id of [undefined, 'a']) {
      t.match((await hold(ask(id, own))).windows, [{ used: 0, resetsAt: end }])
    }
  })

  claim('repeats of a hold and of its release change nothing', async (t, world) => {
    const own = counter(10_000)
    const first = await world.hold(ask('a', own))
    const again = await world.hold(ask('a', own))
    t.same([again.outcome, again.ceiling, heldOf(again)], ['held', first.ceiling, [200]])
    await world.hold(ask('b', own))
    for (const store of [world.holds, world.other, world.holds]) {
      store.release([own], 'a')
      await world.settled()
    }
    world.other.release([own], 'never')
    await world.settled()
    t.strictSame(heldOf(await world.hold(ask(undefined, own))), [200])
  })

  claim('all limits hold or none', async (t, { hold, use }) => {
    const user = nextUser()
    const [wide, narrow] = [counter(1_000_000, hour, user), counter(500, 2 * hour, user)]
    t.strictSame(heldOf(await hold(ask('a', wide, narrow))), [200, 200])
    const refused = await hold(ask('b', wide, narrow))
    t.same([refused.outcome, refused.open], ['busy', 1])
    t.strictSame(heldOf(refused), [200, 200])
    await use(narrow, 500)
    t.equal((await hold(ask('c', wide, narrow))).outcome, 'spent')
    t.strictSame(heldOf(await hold(ask(undefined, wide))), [200])
  })

  claim(
    'limits of a key are held beside those of its user',
    async (t, { hold, holds, settled }) => {
      const user = nextUser()
      const [small, large] = ['llm/small', 'llm/large'].map((model) => ({
        ...counter(10_000, hour, user),
        key: `basic\n${model}\n${hour}\n${user}`,
      })) as [Required<Counter>, Required<Counter>]
      const ofKey = { ...counter(500, hour, user), key: `basic\n@k1\n${hour}\n${user}` }
      t.strictSame(heldOf(await hold(ask('a', small, ofKey))), [200, 200])
      const refused = await hold(ask('b', large, ofKey))
      t.same([refused.outcome, heldOf(refused)], ['busy', [0, 200]])
      holds.release([small, ofKey], 'a')
      await settled()
      t.strictSame(heldOf(await hold(ask('b', large, ofKey))), [200, 200])
    },
  )

  claim('what others share holds together with a user’s own, or not at all', async (t, world) => {
    const { hold, holds, settled } = world
    const [one, two, group] = [nextUser(), nextUser(), nextUser()]
    const pool = shared(`${hour}`, 500, group)
    const model = shared(`${hour}`, 10_000, '', `ModelRef/llm/${group}`)
    const of = (user: string) => [pool, counter(10_000, hour, user), model] as const
    const held = async (user: string) => heldOf(await hold(ask(undefined, ...of(user))))
    const [all, others] = [of(one), of(two)]
    t.strictSame(heldOf(await hold({ ...ask('a', ...all), asker: 'x' })), [200, 200, 200])
    const refused = await hold({ ...ask('b', ...others), asker: 'y' })
    t.same([refused.outcome, heldOf(refused)], ['busy', [200, 0, refused.windows[2]?.held ?? 0]])
    await settled()
    t.strictSame(await held(two), [200, 0, 200])
    world.other.renew(all, 'a', { mean: 350.5, variance: 10 })
    // It is not waited for, and has a connection of its own.
    await poll(async () => (await held(one)).every((each) => each === 451), 'all are renewed')
    world.holds.undo(all, 'a', 'x')
    await settled()
    t.strictSame(await held(one), [0, 0, 0])
    t.strictSame(heldOf(await hold(ask('b', ...others))), [200, 200, 200])
    for (const store of [holds, world.other]) store.release(others, 'b')
    await settled()
    t.strictSame(await held(two), [0, 0, 0])
    await world.use(model, 10_000)
    const spent = await hold(ask('c', ...all))
    t.same([spent.outcome, usedOf(spent), heldOf(spent)], ['spent', [0, 0, 10_000], [0, 0, 0]])
    await world.use(others[1], 10_000)
    await world.use(pool, 500)
    t.same(usedOf(await hold(ask('c', ...others))), [500, 10_000, 10_000])
    await settled()
    t.strictSame(await held(one), [0, 0, 0])
  })

  claim('any order of requests of users who share limits keeps their numbers', async (t, world) => {
    const group = nextUser()
    const users = Array.from({ length: 3 }, nextUser)
    const pool = [shared(`requests-${hour}`, 60, group), shared('concurrency', 4, group)]
    const model = shared('concurrency', 5, '', `ModelRef/llm/${group}`)
    const of = (user: string) => [...pool, ...taking([[2, 0]], user), model]
    const open = new Map<string, string>()
    let requests = 0
    const openOf = (user: string) => [...open.values()].filter((each) => each === user).length
    for (let i = 0; i < 150; i += 1) {
      const store = random.below(2) === 0 ? world.holds : world.other
      const user = users[random.below(3)] as string
      const answer = await store.hold({ ...take(`${i}`, of(user)), asker: 'x' }, world.now())
      const isFull = open.size >= 4 || openOf(user) >= 2
      const seed = `${random.seed}`
      t.equal(answer.outcome === 'held', !isFull && requests < 60, seed)
      if (answer.outcome === 'held') {
        open.set(`${i}`, user)
        requests += 1
        t.same(usedOf(answer), [requests, open.size, openOf(user), open.size], seed)
      } else if (answer.outcome === 'spent') t.equal(requests, 60, seed)
      await world.settled()
      const [ended] = open
      if (ended !== undefined && random.below(2) === 0) {
        await end(world, of(ended[1]), ended[0])
        open.delete(ended[0])
      }
    }
    for (const [id, user] of open) await end(world, of(user), id)
    for (const user of users) {
      t.same(usedOf(await world.hold(take(undefined, of(user)))), [requests, 0, 0, 0])
    }
  })

  claim('a window that ended influences no later one', async (t, world) => {
    const own = counter(10_000, world.shortMs)
    await toBegin(world, own)
    const before = await world.hold(ask('a', own))
    t.equal(before.outcome, 'held')
    await world.advance(world.shortMs + 20)
    t.strictSame(heldOf(await world.hold(ask(undefined, own))), [0])
    t.strictSame(heldOf(await world.hold(ask('b', own))), [200])
    world.holds.release([own], 'a')
    await world.settled()
    t.strictSame(heldOf(await world.hold(ask(undefined, own))), [200])
  })

  claim('nor if something is used in the later one', async (t, world) => {
    const own = counter(10_000, world.shortMs)
    await toBegin(world, own)
    await world.hold(ask('a', own))
    await world.advance(world.shortMs + 20)
    await world.use(own, 7)
    const answer = await world.hold(ask('b', own))
    t.match(answer.windows, [{ used: 7, held: 200 }])
  })

  claim('charged at the end, a hold binds the next window', async (t, world) => {
    const own = counter(10_000, world.shortMs)
    await toBegin(world, own)
    const toEnd = (id?: string): Hold => ({ ...ask(id, own), charge: 'end' })
    await world.hold(toEnd('a'))
    await world.advance(world.shortMs + 20)
    t.strictSame(heldOf(await world.hold(toEnd('b'))), [400])
    for (const id of ['a', 'b']) world.holds.release([own], id)
    await world.settled()
    t.strictSame(heldOf(await world.hold(toEnd())), [0])
  })

  claim('a hold that is never released ends with its lease', async (t, world) => {
    const own = counter(10_000)
    await world.hold(ask('a', own))
    await world.advance(world.leaseMs + 20)
    t.strictSame(heldOf(await world.hold(ask('b', own))), [200])
    world.holds.release([own], 'a')
    await world.settled()
    t.strictSame(heldOf(await world.hold(ask(undefined, own))), [200])
  })

  claim('requests are counted while they are open, and once they have ended', async (t, world) => {
    const requestCounters = taking([[3, hour]], nextUser())
    for (const id of ['a', 'b', 'a']) {
      t.equal((await world.hold(take(id, requestCounters))).outcome, 'held')
    }
    await end(world, requestCounters, 'a')
    t.strictSame(usedOf(await world.hold(take(undefined, requestCounters))), [2])
    t.strictSame(usedOf(await world.other.hold(take('c', requestCounters), world.now())), [3])
    const refused = await world.hold(take('d', requestCounters))
    t.same([refused.outcome, usedOf(refused)], ['spent', [3]])
    t.equal(refused.windows[0]?.resetsAt, windowAt(requestCounters[0] as Counter, world.now()).end)
    world.holds.release(requestCounters, 'b')
    await world.settled()
    t.strictSame(
      usedOf(await world.hold(take(undefined, requestCounters))),
      [2],
      'one that had no response',
    )
  })

  claim('a window of requests ends', async (t, world) => {
    const requestCounters = taking([[1, world.shortMs]], nextUser())
    await toBegin(world, requestCounters[0] as Counter)
    t.equal((await world.hold(take('a', requestCounters))).outcome, 'held')
    t.equal((await world.hold(take('b', requestCounters))).outcome, 'spent')
    await world.advance(world.shortMs + 20)
    t.equal((await world.hold(take('b', requestCounters))).outcome, 'held')
  })

  claim('open requests count until they are released', async (t, world) => {
    const requestCounters = taking([[2, 0]], nextUser())
    t.equal((await world.hold(take('a', requestCounters))).outcome, 'held')
    t.equal((await world.other.hold(take('b', requestCounters), world.now())).outcome, 'held')
    const refused = await world.hold(take('c', requestCounters))
    t.same([refused.outcome, usedOf(refused), refused.open], ['busy', [2], 2])
    for (const store of [world.other, world.holds]) store.release(requestCounters, 'b')
    await world.settled()
    t.same(usedOf(await world.hold(take('c', requestCounters))), [2])
    t.equal((await world.hold(take('a', requestCounters))).outcome, 'held', 'it is repeated')
    t.equal((await world.hold(take('d', requestCounters))).outcome, 'busy')
  })

  claim('what two have asked for ends when both have requestCounters it back', async (t, world) => {
    const user = nextUser()
    const requestCounters = taking([[1, 0]], user)
    const own = counter(10_000, hour, user)
    const both = [own, ...requestCounters]
    for (const [holding, counters] of [
      [take, requestCounters],
      [(id: string) => ({ ...ask(id, own), requestCounters }), both],
      [(id: string) => ask(id, own), [own]],
    ] as const) {
      const heldBy = async (store: HoldStore, asker: string) => {
        const asked = { ...holding('a', requestCounters), asker }
        t.equal((await store.hold(asked, world.now())).outcome, 'held', asker)
      }
      const isHeld = async () => {
        await world.settled()
        const { outcome, windows } = await world.hold({ ...ask(undefined, own), requestCounters })
        return outcome === 'busy' || (windows[0]?.held ?? 0) > 0
      }
      await heldBy(world.holds, 'one')
      await heldBy(world.other, 'two')
      world.holds.undo(counters, 'a', 'one')
      t.ok(await isHeld(), 'the other has it')
      world.other.undo(counters, 'a', 'two')
      t.notOk(await isHeld())
      await heldBy(world.holds, 'one')
      await heldBy(world.other, 'two')
      world.other.release(counters, 'a')
      t.notOk(await isHeld(), 'a request that has ended')
      world.other.undo(counters, 'a', 'two')
      await heldBy(world.holds, 'three')
      world.holds.undo(counters, 'a', 'three')
      t.notOk(await isHeld())
    }
  })

  claim('an open request that is never released ends with its lease', async (t, world) => {
    const requestCounters = taking([[1, 0]], nextUser())
    await world.hold(take('a', requestCounters))
    await world.advance(world.leaseMs + 20)
    t.equal((await world.hold(take('b', requestCounters))).outcome, 'held')
    world.holds.release(requestCounters, 'a')
    await world.settled()
    t.equal((await world.hold(take('c', requestCounters))).outcome, 'busy')
  })

  claim('an open request that is followed keeps its place', async (t, world) => {
    const requestCounters = taking([[1, 0]], nextUser())
    await world.hold(take('a', requestCounters))
    const step = world.leaseMs / 2
    for (let i = 0; i < 3; i += 1) {
      await world.advance(step)
      world.other.renew(requestCounters, 'a', { mean: 0, variance: 0 })
    }
    t.equal((await world.hold(take('b', requestCounters))).outcome, 'busy')
    await world.advance(2 * step + 20)
    t.equal((await world.hold(take('b', requestCounters))).outcome, 'held')
  })

  claim('a request takes everything or nothing', async (t, world) => {
    const user = nextUser()
    const own = counter(10_000, hour, user)
    const both = (id: string | undefined, requests: number, open: number): Hold => ({
      ...ask(id, own),
      requestCounters: taking(
        [
          [requests, hour],
          [open, 0],
        ],
        user,
      ),
    })
    const first = await world.hold(both('a', 9, 9))
    t.same([first.outcome, usedOf(first), heldOf(first)], ['held', [0, 1, 1], [200, 0, 0]])
    for (const [id, requests, open, outcome] of [
      ['b', 1, 9, 'spent'],
      ['c', 9, 1, 'busy'],
      ['d', 1, 1, 'spent'],
    ] as const) {
      const refused = await world.hold(both(id, requests, open))
      t.same([refused.outcome, usedOf(refused)], [outcome, [0, 1, 1]], id)
      t.strictSame(heldOf(refused), [200, 0, 0])
    }
    await world.use(own, 10_000)
    t.equal((await world.hold(both('e', 9, 9))).outcome, 'spent')
    t.same(usedOf(await world.hold(both(undefined, 9, 9))), [10_000, 1, 1])
    await end(world, both('a', 9, 9).requestCounters ?? [], 'a')
    t.same(usedOf(await world.hold(both(undefined, 9, 9))), [10_000, 1, 0])
  })

  claim('any order of requests and ends keeps their number', async (t, world) => {
    const requestCounters = taking(
      [
        [150, hour],
        [5, 0],
      ],
      nextUser(),
    )
    const open = new Set<string>()
    let requests = 0
    for (let i = 0; i < 300; i += 1) {
      const store = random.below(2) === 0 ? world.holds : world.other
      const isRepeated = open.size > 0 && random.below(5) === 0
      const id = isRepeated ? ([...open][random.below(open.size)] as string) : `${i}`
      const { outcome, windows } = await store.hold(take(id, requestCounters), world.now())
      const wanted = requests >= 150 ? 'spent' : open.size >= 5 ? 'busy' : 'held'
      t.equal(outcome, isRepeated ? 'held' : wanted, `${random.seed}`)
      if (!isRepeated && wanted === 'held') {
        open.add(id)
        requests += 1
      }
      t.same(
        windows.map(({ used }) => used),
        [requests, open.size],
        `${random.seed}`,
      )
      const [ended] = open
      if (ended !== undefined && random.below(2) === 0) {
        await end(world, requestCounters, ended)
        open.delete(ended)
      }
    }
  })

  claim('a hold that is followed grows up to its ceiling', async (t, world) => {
    const own = counter(10_000)
    const { ceiling } = await world.hold(ask('a', own))
    await world.hold(ask('b', own))
    const heldAfter = async (mean: number) => {
      world.other.renew([own], 'a', { mean, variance: 10 })
      world.other.renew([own], 'never', { mean, variance: 10 })
      await world.other.hold(ask(undefined, own), world.now())
      return heldOf(await world.hold(ask(undefined, own)))[0]
    }
    t.equal(await heldAfter(350.5), 651)
    t.equal(await heldAfter(10), 651, 'it never shrinks')
    t.equal(await heldAfter(1e9), 300 + ceiling)
    for (const id of ['a', 'b']) world.holds.release([own], id)
    await world.settled()
    t.strictSame(heldOf(await world.hold(ask(undefined, own))), [0])
    t.strictSame(heldOf(await world.hold(ask('c', own))), [200], 'all sums are as they were')
  })

  claim('and lives longer', async (t, world) => {
    const own = counter(10_000)
    await world.hold(ask('a', own))
    const renew = () => world.holds.renew([own], 'a', { mean: 1, variance: 1 })
    const step = world.leaseMs / 2
    for (let at = 0; at <= world.leaseMs; at += step) {
      renew()
      await world.advance(step)
    }
    t.strictSame(heldOf(await world.hold(ask(undefined, own))), [200])
    await world.advance(2 * step + 20)
    t.strictSame(heldOf(await world.hold(ask(undefined, own))), [0])
  })

  /** Returns the most tokens by which a window exceeded its bound, and checks all sums on the way. */
  async function play(t: Test, world: HoldWorld, extra: number): Promise<number> {
    const limit = 1 + random.below(40_000)
    const own = counter(limit)
    const promised = Math.floor(limit * 1.25)
    const open = new Map<string, HeldAmount>()
    const ended: string[] = []
    let used = 0
    let alone = 0
    const isWorst = random.below(2) === 0
    const sums = () =>
      [...open.values()].reduce<HeldSums>((sum, each) => withHold(sum, each, 1), noHolds)
    const settle = async (id: string, hold: HeldAmount) => {
      const tokens = isWorst ? hold.most : random.below(hold.most + 1)
      await world.use(own, tokens)
      used += tokens
      for (const store of [world.holds, world.other].slice(random.below(2)))
        store.release([own], id)
      open.delete(id)
      ended.push(id)
      await world.settled()
    }
    for (let i = 0; i < 60; i += 1) {
      const expected = expectedAtRandom()
      const canLimitOutput = random.below(4) > 0
      const id = `${own.key} ${i}`
      const before = sums()
      const wanted = admitRequest(
        [{ limit, used, held: before }],
        expected,
        0.25 + extra,
        canLimitOutput,
      )
      const store = random.below(2) === 0 ? world.holds : world.other
      const asked = { ...ask(id, own), expected, canLimitOutput, overshoot: 0.25 + extra }
      const answer = await store.hold(asked, world.now())
      if (answer.outcome !== wanted.outcome)
        t.equal(answer.outcome, wanted.outcome, `${random.seed}`)
      if (wanted.outcome === 'held') {
        if (answer.ceiling !== wanted.ceiling)
          t.equal(answer.ceiling, wanted.ceiling, `cap, ${random.seed}`)
        open.set(id, wanted.hold)
        if (before.count === 0) alone = Math.max(alone, used + wanted.hold.most)
      }
      if (heldOf(answer)[0] !== sums().mean) t.equal(heldOf(answer)[0], sums().mean, 'held')
      if (answer.windows[0]?.used !== used) t.equal(answer.windows[0]?.used, used, 'used')
      if (ended.length > 0 && random.below(4) === 0) {
        world.other.release([own], ended[random.below(ended.length)] as string)
      }
      const [oldest] = open
      if (oldest !== undefined && random.below(3) === 0) await settle(...oldest)
    }
    for (const each of [...open]) await settle(...each)
    const after = await world.holds.hold(ask(undefined, own), world.now())
    t.strictSame(heldOf(after), [0], 'nothing is held in the end')
    return used - Math.max(promised, alone)
  }

  claim('any order of holds and releases keeps sums and bound', async (t, world) => {
    for (let i = 0; i < 40; i += 1) {
      t.ok((await play(t, world, 0)) <= 0, `within the bound, seed ${random.seed}`)
    }
  })

  /** What a limit of money counts. */
  const pricesOf = (): Factors => {
    const perInput = random.below(3) === 0 ? 0 : random.below(9_000) / 7
    const mostPerInput = perInput * (1 + random.below(2) / 4)
    return {
      base: random.below(500),
      perInput,
      mostPerInput,
      perOutput: random.below(40_000) / 7,
      grain: 1_000,
    }
  }

  interface HeldThere {
    hold: HeldAmount
    /** As its subject knows them. */
    tokens: HeldAmount
    readonly factors: Factors | undefined
  }

  /** One counter, and what requests hold and have used of it. */
  interface Account {
    readonly counter: Required<Counter>
    readonly holds: Map<string, HeldThere>
    used: number
    /** The most that its requests may use. */
    bound: number
  }

  function accountOf(counter: Required<Counter>): Account {
    return { counter, holds: new Map(), used: 0, bound: Math.floor(Number(counter.limit) * 1.25) }
  }

  const sumsOf = ({ holds }: Account) =>
    [...holds.values()].reduce((sums, { hold }) => withHold(sums, hold, 1), noHolds)

  claim('users who share limits of tokens and money keep each bound', async (t, world) => {
    for (let round = 0; round < 8; round += 1) {
      const group = nextUser()
      const model = accountOf(
        shared(`${hour}`, 5_000 + random.below(60_000), '', `ModelRef/${group}`),
      )
      const pool = accountOf(shared(`cost-${hour}`, 1e6 + random.below(1e8), `a ${group}`))
      const users = Array.from({ length: 3 }, () => accountOf(counter(1 + random.below(20_000))))
      const open = new Map<string, readonly Account[]>()
      for (let i = 0; i < 60; i += 1) {
        const id = `${group} ${i}`
        const seed = `${random.seed}, ${id}`
        const own = [users[random.below(3)], pool, model] as readonly Account[]
        const factors = own.map((each) => (each === pool ? pricesOf() : undefined))
        const expected = expectedAtRandom()
        const canLimitOutput = random.below(4) > 0
        const wanted = decide(own, factors, expected, canLimitOutput)
        const store = random.below(2) === 0 ? world.holds : world.other
        const counters = own.map((each, j) => ({ ...each.counter, factors: factors[j] }))
        const asked = { ...ask(id), counters, expected, canLimitOutput, asker: 'x' }
        const answer = await store.hold(asked, world.now())
        t.equal(answer.outcome, wanted.outcome, seed)
        if (wanted.outcome === 'held') {
          t.equal(answer.ceiling, wanted.ceiling, seed)
          open.set(id, own)
          for (const [j, account] of own.entries()) {
            const hold = wanted.holds[j] as HeldAmount
            const isAlone = account.holds.size === 0
            if (isAlone) account.bound = Math.max(account.bound, account.used + hold.most)
            const tokens = wanted.tokens[j] as HeldAmount
            account.holds.set(id, { hold, tokens, factors: factors[j] })
          }
        }
        await world.settled()
        t.same(
          usedOf(answer),
          own.map(({ used }) => used),
          seed,
        )
        t.same(
          heldOf(answer),
          own.map((each) => sumsOf(each).mean),
          seed,
        )
        if (random.below(3) > 0) continue
        const [id0 = '', accounts = []] = [...open][random.below(open.size)] ?? []
        if (random.below(3) === 0) {
          const more = { mean: random.below(900), variance: random.below(9_000), inputVariance: 50 }
          world.other.renew(
            accounts.map((each) => each.counter),
            id0,
            more,
          )
          for (const { holds } of accounts) {
            const found = holds.get(id0)
            if (found === undefined) continue
            found.hold = growHold(found.hold, more, found.factors, found.tokens)
            found.tokens = growHold(found.tokens, more)
          }
          // The other process asks the same server.
          await world.other.hold({ ...asked, id: undefined }, world.now())
        } else await settle(id0, accounts)
      }
      for (const [id, accounts] of open) await settle(id, accounts)
      for (const { counter, used, bound } of [...users, pool, model]) {
        t.ok(used <= bound, `${used} of ${bound}, ${counter.key}, ${random.seed}`)
        t.strictSame(heldOf(await world.hold(ask(undefined, counter))), [0])
      }
      async function settle(id: string, accounts: readonly Account[]): Promise<void> {
        for (const account of accounts) {
          const { most: ceiling = 0 } = account.holds.get(id)?.hold ?? {}
          const amount = random.below(2) === 0 ? ceiling : random.below(ceiling + 1)
          account.holds.delete(id)
          account.used += amount
          await world.use(account.counter, amount)
        }
        open.delete(id)
        for (const store of [world.holds, world.other]) {
          store.release(
            accounts.map((each) => each.counter),
            id,
          )
        }
        await world.settled()
      }
    }

    /** One subject after the other, or all at once. */
    function decide(
      own: readonly Account[],
      factors: readonly (Factors | undefined)[],
      expected: Expectation,
      canLimitOutput: boolean,
    ) {
      const subjects = world.isJoint ? [[0, 1, 2]] : [[0], [1], [2]]
      let [ceiling, outcome] = [Number.POSITIVE_INFINITY, 'held' as HoldResult['outcome']]
      const holds: HeldAmount[] = []
      const tokens: HeldAmount[] = []
      for (const subject of subjects) {
        const rooms = subject.map((j) => {
          const account = own[j] as Account
          const { used, counter } = account
          return { limit: counter.limit, used, held: sumsOf(account), factors: factors[j] }
        })
        const worst = Math.min(expected.worst, ceiling)
        const admission = admitRequest(rooms, { ...expected, worst }, 0.25, canLimitOutput)
        if (admission.outcome === 'held') {
          holds.push(...admission.holds)
          ceiling = Math.min(ceiling, admission.ceiling)
          tokens.push(...subject.map(() => admission.hold))
        } else if (outcome !== 'spent') outcome = admission.outcome
      }
      return { outcome, holds, ceiling, tokens }
    }
  })

  claim('the same notices a bound that is off by a tenth', async (t, world) => {
    let worst = 0
    for (let i = 0; i < 40; i += 1) worst = Math.max(worst, await play(t, world, 0.1))
    t.ok(worst > 0)
  })
}
