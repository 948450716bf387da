import { test } from 'tap'
import { toCountedLimits } from '../../../src/ratelimit/rules/counted-limits.ts'
import { type CounterState, counterStateAt } from '../../../src/ratelimit/rules/counter.ts'
import { counterOf, countersOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import { userInLines } from '../../../src/ratelimit/rules/counter-key.ts'
import {
  type CountedLimit,
  joinLimits,
  lastSpentLimit,
  limitStates,
} from '../../../src/ratelimit/rules/limit.ts'
import { endOf } from '../../support/window-ends.ts'

const minute = 60_000
const hour = 3_600_000
const now = 1_000_000

function limits(...written: readonly (readonly [number, string, number])[]) {
  return toCountedLimits(
    'team-a',
    'llm/small',
    written.map(([limit, window, windowMs]) => ({ limit, window, windowMs })),
  )
}

/** When these limits are free again, with counters known so far. */
const until = (of: ReturnType<typeof limits>, counters: readonly CounterState[], at: number) =>
  lastSpentLimit(limitStates(of, counters, at))?.resetsAt

const perMinute = limits([100, '1m', minute])
const both = limits([100, '1m', minute], [150, '1h', hour])

test('a counter belongs to a user, subscription, model and window', async (t) => {
  const [limit] = perMinute
  const counter = counterOf(limit as NonNullable<typeof limit>, 'ada')
  t.strictSame(counter, {
    ...{ key: 'team-a\nllm/small\n60000\nada', owner: 'ada', window: { ms: minute }, limit: 100 },
  })
})

test("a key's own counter has a phase of its own", async (t) => {
  const written = [{ limit: 5, window: '1m', windowMs: minute }]
  const key = { id: 'key-1', user: 'ada' }
  const [limit] = toCountedLimits('team-a', '@key-1', written, { scope: 'key', key })
  t.strictSame(counterOf(limit as NonNullable<typeof limit>, 'ada'), {
    ...{ key: 'team-a\n@key-1\n60000\nada', owner: 'key-1', window: { ms: minute }, limit: 5 },
  })
})

test('a user with a longer name than lines carry is counted as lines name them', async (t) => {
  const [limit] = perMinute
  for (const user of ['x'.repeat(2_000), '"'.repeat(400), '\u0001'.repeat(106), 'é'.repeat(107)]) {
    const { key, owner } = counterOf(limit as NonNullable<typeof limit>, user)
    t.equal(owner, userInLines(user))
    t.equal(key, `team-a\nllm/small\n60000\n${userInLines(user)}`)
  }
})

test('counters of a list are those of its limits, and the same objects for the same list, user and pool', async (t) => {
  const own = limits([7, '1h', hour])
  const list = joinLimits(both, own)
  t.strictSame(list, [...both, ...own])
  t.equal(joinLimits(both, own), list)
  t.not(joinLimits(perMinute, own), list)
  const counters = countersOf(list, 'ada')
  t.match(
    counters,
    list.map((limit) => counterOf(limit, 'ada')),
  )
  t.equal(countersOf(list, 'ada'), counters)
  t.match(countersOf(list, 'bob')[0], { owner: 'bob' })
  const pooled = list.map((limit) => ({ ...limit, scope: 'group' }) as const)
  const ofA = countersOf(pooled, 'ada', 'a')
  t.equal(countersOf(pooled, 'ada', 'a'), ofA)
  t.match(countersOf(pooled, 'ada', 'b')[0], counterOf(pooled[0] as CountedLimit, 'ada', 'b'))
  t.match(countersOf(pooled, 'ada', 'a'), ofA, 'who changes groups draws on the other pool')
  for (let i = 0; i < 40_000; i += 1) countersOf(list, `user ${i}`)
  t.match(countersOf(list, 'ada'), counters, 'also when all were forgotten meanwhile')
})

test('no user name leads to the counter of another user', async (t) => {
  const [limit] = perMinute
  const [other] = toCountedLimits('team-a', 'llm/smal', [
    { limit: 1, window: '1m', windowMs: minute },
  ])
  t.not(
    counterOf(limit as NonNullable<typeof limit>, 'ada').key,
    counterOf(other as NonNullable<typeof other>, 'l\nada').key,
  )
})

test('windows of equal length share the lowest limit', async (t) => {
  const shared = limits(
    [100, '1m', minute],
    [50, '60s', minute],
    [70, '1m', minute],
    [900, '1h', hour],
  )
  t.strictSame(
    shared.map(({ limit, windowMs }) => [limit, windowMs]),
    [
      [50, minute],
      [900, hour],
    ],
  )
})

test('a limit is described as a RateLimit-Policy item', async (t) => {
  t.strictSame(
    both.map(({ policy }) => policy),
    ['"1m";q=100;w=60;qu="tokens"', '"1h";q=150;w=3600;qu="tokens"'],
  )
})

test('a limit is spent once it is reached', async (t) => {
  for (const [used, expected] of [
    [0, undefined],
    [99, undefined],
    [100, now + 5_000],
    [101, now + 5_000],
    [1e15, now + 5_000],
  ] as const) {
    t.equal(until(perMinute, [{ used, resetsAt: now + 5_000 }], now), expected, String(used))
  }
  const spent = [{ used: 100, resetsAt: now + 5_000 }]
  t.equal(until(perMinute, spent, now + 4_999), now + 5_000)
  t.equal(lastSpentLimit([]), undefined)
})

test('all limits must have tokens left', async (t) => {
  const soon = now + 5_000
  const later = now + hour
  const states = (m: number, h: number): CounterState[] => [
    { used: m, resetsAt: soon },
    { used: h, resetsAt: later },
  ]
  t.equal(until(both, states(99, 149), now), undefined)
  t.equal(until(both, states(100, 149), now), soon)
  t.equal(until(both, states(99, 150), now), later)
  t.equal(until(both, states(100, 150), now), later, 'the later end counts')
  t.equal(
    until(both, [{ used: 0, resetsAt: soon + minute }, ...states(0, 150).slice(1)], soon),
    later,
  )
  t.equal(until([...both].reverse(), states(100, 150).reverse(), now), later)
})

test('an unused window has an end, too', async (t) => {
  const unused = { used: 0, resetsAt: now + 5_000 }
  t.match(limitStates(perMinute, [unused], now), [{ ...unused, remaining: 100 }])
  const held = { ...unused, used: 30, held: 50 }
  t.match(limitStates(perMinute, [held], now), [{ ...held, remaining: 20 }])
})

test('of a later time nothing is known but what has been counted', async (t) => {
  const [limit] = perMinute
  const counter = counterOf(limit as NonNullable<typeof limit>, 'ada')
  const resetsAt = endOf('1m', 'ada', now)
  const state = { used: 100, resetsAt, held: 7 }
  t.equal(counterStateAt(counter, state, now), state)
  t.equal(counterStateAt(counter, state, resetsAt - 1), state)
  t.strictSame(counterStateAt(counter, state, resetsAt), { used: 0, resetsAt: resetsAt + minute })
  t.strictSame(counterStateAt(counter, state, resetsAt + 7 * minute + 1), {
    ...{ used: 0, resetsAt: resetsAt + 8 * minute },
  })
  const open = { ...counter, window: { ms: 0 } }
  t.strictSame(counterStateAt(open, { used: 3, resetsAt: now }, now + 1), {
    used: 0,
    resetsAt: now + 1,
  })
})

test('a counter is remembered for its limit and whose use it is', async (t) => {
  const [limit, other] = [60, 70].map(
    (most) => limits([most, '1m', minute])[0] as CountedLimit,
  ) as [CountedLimit, CountedLimit]
  const ada = counterOf(limit, 'ada')
  t.equal(counterOf(limit, 'ada'), ada)
  t.match(counterOf(other, 'ada'), { key: ada.key, limit: 70 }, 'another limit, the same counter')
  // More than are remembered.
  for (let i = 0; i < 70_000; i += 1) counterOf(limit, `user-${i}`)
  t.not(counterOf(limit, 'ada'), ada)
  t.same(counterOf(limit, 'ada'), ada)
})
