import { test } from 'tap'
import {
  addLate,
  addTo,
  type CounterState,
  counterOf,
  limitStates,
  openAt,
  spentUntil,
  toCountedLimits,
} from '../../../src/core/decision/counter.ts'

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

/** `spentUntil` of these limits with counters known so far. */
const until = (
  of: ReturnType<typeof limits>,
  counters: readonly (CounterState | undefined)[],
  at: number,
) => spentUntil(limitStates(of, counters, at))

const perMinute = limits([100, '1m', minute])
const both = limits([100, '1m', minute], [150, '1h', hour])

test('a counter belongs to a user, subscription, model and window', async (t) => {
  const [limit] = perMinute
  const counter = counterOf(limit as NonNullable<typeof limit>, 'ada')
  t.strictSame(counter, { key: 'team-a\nllm/small\n60000\nada', windowMs: minute, limit: 100 })
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

test('the first count opens a fixed window', async (t) => {
  const first = addTo(undefined, 40, minute, now)
  t.strictSame(first, { used: 40, resetsAt: now + minute })
  const second = addTo(first, 40, minute, now + minute - 1)
  t.strictSame(
    second,
    { used: 80, resetsAt: now + minute },
    'a later count does not move the window',
  )
  t.strictSame(addTo(second, 7, minute, now + minute), { used: 7, resetsAt: now + 2 * minute })
  t.strictSame(addTo(second, 7, minute, now + 50 * minute), {
    used: 7,
    resetsAt: now + 51 * minute,
  })
  t.strictSame(first, { used: 40, resetsAt: now + minute }, 'states are not changed in place')
})

test('reading sees only open windows', async (t) => {
  const state = { used: 40, resetsAt: now + minute }
  t.equal(openAt(undefined, minute, now), undefined)
  t.equal(openAt(state, minute, now), state)
  t.equal(openAt(state, minute, now + minute - 1), state)
  t.equal(openAt(state, minute, now + minute), undefined)
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
  t.equal(until(perMinute, spent, now + 5_000), undefined, 'open again exactly at its end')
  t.equal(until(perMinute, [undefined], now), undefined)
  t.equal(spentUntil([]), undefined)
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
  t.equal(until(both, states(100, 150), soon), later, 'the shorter window has ended')
  t.equal(until([...both].reverse(), states(100, 150).reverse(), now), later)
})

test('three responses pass and the fourth request is refused', async (t) => {
  let state: CounterState | undefined
  for (let answer = 0; answer < 3; answer += 1) {
    t.equal(until(perMinute, [state], now + answer), undefined)
    state = addTo(state, 40, minute, now + answer)
  }
  t.equal(state?.used, 120, 'the third response is counted whole')
  t.equal(until(perMinute, [state], now + 3), now + minute)
  t.equal(until(perMinute, [state], now + minute), undefined)
})

test('a clock that is set back keeps a window closed for at most its length', async (t) => {
  const spent = { used: 100, resetsAt: now + minute }
  const back = now - hour
  t.equal(until(perMinute, [spent], back), back + minute, 'at most one window')
  t.strictSame(openAt(spent, minute, back), { used: 100, resetsAt: back + minute })
  t.strictSame(addTo(spent, 1, minute, back), { used: 101, resetsAt: back + minute })
  t.strictSame(openAt(spent, minute, now - 1), { used: 100, resetsAt: now - 1 + minute })
})

test('a clock that is set forward opens the window', async (t) => {
  const spent = { used: 100, resetsAt: now + minute }
  t.equal(until(perMinute, [spent], now + hour), undefined)
  t.strictSame(addTo(spent, 1, minute, now + hour), { used: 1, resetsAt: now + hour + minute })
})

test('late tokens count in the window in which they were used', async (t) => {
  const now = 10 * hour
  const open = { used: 5, resetsAt: now + 20_000 }
  t.strictSame(addLate(undefined, 7, minute, now, now - 50_000), {
    used: 7,
    resetsAt: now + 10_000,
  })
  t.equal(addLate(undefined, 7, minute, now, now - minute), undefined, 'that window has ended')
  t.strictSame(addLate(undefined, 7, minute, now, now + hour), { used: 7, resetsAt: now + minute })
  t.strictSame(addLate(open, 7, minute, now, now - 59_999), { ...open, used: 12 })
  t.equal(addLate(open, 7, minute, now, now - minute), open)
  const past = now - hour
  t.equal(addLate(open, 7, minute, past, past), open, 'it had ended before the open window began')
  const during = now - 30_000
  t.strictSame(
    addLate(open, 7, minute, during, during),
    { ...open, used: 12 },
    'the end of the window stays as it is',
  )
  t.match(addLate({ used: 5, resetsAt: now }, 7, minute, now, now), { used: 7 })
})
