import { test } from 'tap'
import { createMemoryHolds } from '../../../src/ratelimit/holds/memory-holds.ts'
import { emptyHold, type Hold, holdLeaseMs } from '../../../src/ratelimit/rules/hold.ts'
import { createTestCounters } from '../../support/counters.ts'
import { type HoldWorld, testHoldStore } from './hold-store.contract.ts'

async function createWorld(): Promise<HoldWorld> {
  let now = 1_000_000
  const counters = createTestCounters()
  const holds = createMemoryHolds(counters.windows, () => now)
  return {
    ...{ isJoint: true, holds, other: holds, leaseMs: holdLeaseMs, shortMs: 20_000 },
    now: () => now,
    use: async (counter, tokens) => counters.add([counter], tokens, now),
    async settled() {},
    async advance(ms) {
      now += ms
    },
    async close() {},
  }
}

testHoldStore('memory', createWorld)

function asked(id: string, ms: number): Hold {
  const counter = { key: `basic\nllm/small\n${ms}\nada`, owner: 'ada', window: { ms } }
  return {
    ...emptyHold,
    id,
    counters: [{ ...counter, limit: 10_000 }],
    expected: {
      ...{ input: 100, inputVariance: 1, output: 100, outputVariance: 1 },
      ...{ floor: 200, beyondRoom: 200, isSeveral: false, least: 1, worst: 400 },
    },
    ...{ overshoot: 0.25, canLimitOutput: true, charge: 'admission' },
  }
}

test('a clock that is set frees nothing and refuses nobody for ever', async (t) => {
  let passed = 0
  const holds = createMemoryHolds(createTestCounters().windows, () => passed)
  const held = (now: number, id: string) => {
    const answer = holds.hold({ ...asked(id, 60_000), charge: 'end' }, now)
    if (answer instanceof Promise) throw new Error('memory answers at once')
    return answer.windows[0]?.held
  }
  t.equal(held(100_000_000, 'a'), 200)
  t.equal(held(99_990_000, 'b'), 400, 'ten seconds back')
  passed += holdLeaseMs - 1
  t.equal(held(10_000_000, 'c'), 600, 'a day back')
  t.equal(held(200_000_000, 'd'), 800, 'a day ahead')
  passed += 1_000
  t.equal(held(10_000_000, 'e'), 600, 'leases end by the time that has passed')
})

test('a window that begins anew has no holds', async (t) => {
  const counters = createTestCounters()
  const holds = createMemoryHolds(counters.windows)
  const now = 100_000_000
  const { counters: own } = asked('a', 3_600_000)
  await holds.hold(asked('a', 3_600_000), now)
  await counters.reset(own, now + 1)
  const answer = await holds.hold(asked('b', 3_600_000), now + 2)
  t.equal(answer.windows[0]?.held, 200)
  holds.release(own, 'a')
  const { windows } = await holds.hold({ ...asked('c', 3_600_000), id: undefined }, now + 3)
  t.equal(windows[0]?.held, 200, 'what was held before weighs on the window before')
})

test('what has ended needs no memory', async (t) => {
  let now = 0
  const holds = createMemoryHolds(createTestCounters().windows, () => now)
  const of = { owner: 'ada', limit: 10_000 }
  const requestCounters = [
    { ...of, key: 'basic\nllm/small\nrequests-60000\nada', window: { ms: 60_000 } },
    { ...of, key: 'basic\nllm/small\nconcurrency\nada', window: { ms: 0 } },
  ]
  for (let i = 0; i < 1_000; i += 1) {
    const each = { ...asked(`id ${i}`, 60_000), requestCounters }
    now = 1_000_000 + i * 30_000
    holds.hold(each, now)
    if (i % 2 === 0) holds.release(each.counters, `id ${i}`)
  }
  t.ok(holds.size <= 16, `${holds.size} of 1000`)
})
