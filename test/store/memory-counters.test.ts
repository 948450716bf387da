import { test } from 'tap'
import type { Counter } from '../../src/core/counter.ts'
import { createMemoryCounters } from '../../src/store/memory-counters.ts'
import { testCounterStore } from './counter-store.contract.ts'

const start = 1_000_000
const minute = 60_000
const a: Counter = { key: 'a', windowMs: minute }
const b: Counter = { key: 'b', windowMs: 10 * minute }

testCounterStore('memory', async () => {
  let now = start
  return {
    counters: createMemoryCounters(),
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
})

test('counters are read in the order asked', async (t) => {
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

test('a window ends at its very end', async (t) => {
  const counters = createMemoryCounters()
  counters.add([a], 1, start)
  t.match(counters.read([a], start + minute - 1), [{ used: 1 }])
  t.strictSame(counters.read([a], start + minute), [undefined])
  counters.add([a], 7, start + minute)
  t.strictSame(counters.read([a], start + minute), [{ used: 7, resetsAt: start + 2 * minute }])
})

test('a clock set back keeps a window one length', async (t) => {
  const counters = createMemoryCounters()
  counters.add([a], 100, start)
  const back = start - 60 * minute
  t.strictSame(counters.read([a], back), [{ used: 100, resetsAt: back + minute }])
  t.strictSame(counters.read([a], back + 10), [{ used: 100, resetsAt: back + minute }], 'cut once')
  t.strictSame(counters.read([a], back + minute), [undefined])
})

test('ended windows are swept, open ones stay', async (t) => {
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

test('a sweep costs no more than the adds before it', async (t) => {
  const counters = createMemoryCounters()
  const startedAt = process.cpuUsage()
  for (let user = 0; user < 300_000; user += 1)
    counters.add([{ key: String(user), windowMs: minute }], 1, start)
  t.equal(counters.size, 300_000)
  t.ok(process.cpuUsage(startedAt).user < 20_000_000)
})

test('keys of the language are only keys', async (t) => {
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
