import { test } from 'tap'
import type { Counter } from '../../../src/core/decision/counter.ts'
import { createMemoryCounters } from '../../../src/store/counters/memory.ts'
import { testCountedOnce } from './counted-once.contract.ts'
import { type CounterWorld, testCounterStore } from './counter-store.contract.ts'

const start = 1_000_000
const minute = 60_000
const a: Counter = { key: 'a', windowMs: minute }
const b: Counter = { key: 'b', windowMs: 10 * minute }

async function createWorld(): Promise<CounterWorld> {
  let now = start
  const counters = createMemoryCounters()
  return {
    counters,
    other: counters,
    async agree() {},
    now: () => now,
    async advance(ms) {
      now += ms
    },
    setBack(ms) {
      now -= ms
    },
    slackMs: 0,
    async close() {},
  }
}

testCounterStore('memory', createWorld)
testCountedOnce('memory', createWorld)

test('counters are returned in the order requested', async (t) => {
  const counters = createMemoryCounters()
  t.strictSame(counters.read([a, b], start), [undefined, undefined])
  counters.add([a], 40, start)
  counters.add([a, b], 2, start + 5)
  t.strictSame(counters.read([b, a, { ...a, key: 'c' }], start + 10), [
    { used: 2, resetsAt: start + 5 + 10 * minute },
    { used: 42, resetsAt: start + minute },
    undefined,
  ])
  t.strictSame(counters.read([], start), [])
})

test('reading neither counts nor opens', async (t) => {
  const counters = createMemoryCounters()
  counters.read([a], start)
  t.equal(counters.size, 0)
  counters.add([a], 1, start + 5)
  t.match(counters.read([a], start + 6), [{ used: 1, resetsAt: start + 5 + minute }])
  t.match(counters.read([a], start + 6), [{ used: 1 }])
})

test('a window ends exactly at its end', async (t) => {
  const counters = createMemoryCounters()
  counters.add([a], 1, start)
  t.match(counters.read([a], start + minute - 1), [{ used: 1 }])
  t.strictSame(counters.read([a], start + minute), [undefined])
  counters.add([a], 7, start + minute)
  t.strictSame(counters.read([a], start + minute), [{ used: 7, resetsAt: start + 2 * minute }])
})

test('after a clock is set back a window lasts at most its length', async (t) => {
  const counters = createMemoryCounters()
  counters.add([a], 100, start)
  const back = start - 60 * minute
  t.strictSame(counters.read([a], back), [{ used: 100, resetsAt: back + minute }])
  t.strictSame(
    counters.read([a], back + 10),
    [{ used: 100, resetsAt: back + minute }],
    'shortened once',
  )
  t.strictSame(counters.read([a], back + minute), [undefined])
})

test('ended windows are removed, open ones stay', async (t) => {
  const counters = createMemoryCounters()
  for (let user = 0; user < 9_999; user += 1)
    counters.add([{ key: `old ${user}`, windowMs: minute }], 1, start)
  t.equal(counters.size, 9_999)
  const later = start + minute
  counters.add([b], 5, later - 1)
  for (let round = 0; round < 10_001; round += 1) counters.add([a], 1, later)
  t.equal(counters.size, 2)
  t.match(counters.read([a, b], later), [{ used: 10_001 }, { used: 5 }])
})

test('old entries are removed even while nothing is added', async (t) => {
  const counters = createMemoryCounters()
  for (let user = 0; user < 5_000; user += 1)
    counters.add([{ key: `old ${user}`, windowMs: minute }], 1, start, reportOf(`${user}`, start))
  counters.read([b], start + 2 * minute)
  t.match(counters, { size: 0, reports: 5_000 }, 'windows at their end')
  counters.read([b], start + 86_400_000 + 2 * minute)
  t.equal(counters.reports, 0, 'responses after a day')
})

test('a sweep costs no more than the additions before it', async (t) => {
  const counters = createMemoryCounters()
  const startedAt = process.cpuUsage()
  for (let user = 0; user < 300_000; user += 1)
    counters.add([{ key: String(user), windowMs: minute }], 1, start)
  t.equal(counters.size, 300_000)
  t.ok(process.cpuUsage(startedAt).user < 20_000_000)
})

/** A response that the journal reports. */
function reportOf(id: string, endedAt: number) {
  return { id, endedAt, by: 'journal' as const }
}

test('reading a journal again rebuilds its windows', async (t) => {
  const counters = createMemoryCounters()
  for (const [i, agoMs] of [130_000, 90_000, 75_000, 40_000, 10_000].entries()) {
    counters.add([a, b], 1, start - agoMs, reportOf(`${i}`, start - agoMs))
  }
  t.strictSame(counters.read([a, b], start), [
    { used: 2, resetsAt: start - 40_000 + minute },
    { used: 5, resetsAt: start - 130_000 + 10 * minute },
  ])
})

test('reading a journal again leaves later windows alone', async (t) => {
  const counters = createMemoryCounters()
  counters.add([a], 10, start)
  for (const agoMs of [90_000, 60_000, 59_000, 500]) {
    counters.add([a], 1, start - agoMs, reportOf(`${agoMs}`, start - agoMs))
  }
  t.strictSame(counters.read([a], start), [{ used: 12, resetsAt: start + minute }])
})

test('after a clock is set back the stream is still counted', async (t) => {
  const counters = createMemoryCounters()
  counters.add([a], 100, start)
  const back = start - 60 * minute
  counters.add([a], 5, back, { id: 'back', endedAt: back - 100, by: 'stream' })
  t.strictSame(counters.read([a], back), [{ used: 105, resetsAt: back + minute }])
})

test('responses are forgotten after a day', async (t) => {
  const counters = createMemoryCounters()
  const day = 86_400_000
  const begin = 10 * day
  for (let hour = 0; hour < 72; hour += 1) {
    const now = begin + (hour * day) / 24
    for (let i = 0; i < 10; i += 1) counters.add([a], 1, now, reportOf(`${hour} ${i}`, now))
  }
  t.equal(counters.reports, 250)
  await counters.forgetReports(begin + 3 * day)
  t.equal(counters.reports, 0)
})

test('names such as __proto__ are ordinary keys', async (t) => {
  const counters = createMemoryCounters()
  t.strictSame(
    counters.read(
      [
        { key: '__proto__', windowMs: 1 },
        { key: 'constructor', windowMs: 1 },
      ],
      0,
    ),
    [undefined, undefined],
  )
})
