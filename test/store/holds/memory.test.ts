import { test } from 'tap'
import { createMemoryCounters } from '../../../src/store/counters/memory.ts'
import { createMemoryHolds } from '../../../src/store/holds/memory.ts'
import { withTaken } from '../../../src/store/holds/memory-taken.ts'
import { type AskedHold, leaseMs } from '../../../src/store/holds.ts'
import { type HoldWorld, testHoldStore } from './hold-store.contract.ts'

async function createWorld(): Promise<HoldWorld> {
  let now = 1_000_000
  const counters = createMemoryCounters()
  const holds = withTaken(createMemoryHolds(counters), counters)
  return {
    ...{ holds, other: holds, leaseMs, shortMs: 20_000 },
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

function asked(id: string, windowMs: number): AskedHold {
  return {
    id,
    counters: [{ key: `basic\nllm/small\n${windowMs}\nada`, windowMs, limit: 10_000 }],
    expected: {
      ...{ input: 100, inputVariance: 1, output: 100, outputVariance: 1 },
      ...{ floor: 200, beyondRoom: 200, isSeveral: false, least: 1, worst: 400 },
    },
    ...{ overshoot: 0.25, canCap: true, charge: 'admission' },
  }
}

test('a clock that steps back frees nothing and refuses nobody for ever', async (t) => {
  const counters = createMemoryCounters()
  const holds = createMemoryHolds(counters)
  const held = (now: number, id: string, windowMs = 60_000) => {
    const answer = holds.hold(asked(id, windowMs), now)
    if (answer instanceof Promise) throw new Error('memory answers at once')
    return answer.windows[0]?.held
  }
  t.equal(held(100_000_000, 'a'), 200)
  t.equal(held(99_990_000, 'b'), 400, 'ten seconds back')
  t.equal(held(10_000_000, 'c'), 200, 'a day back, what is open has no known end')
  t.equal(holds.size, 1)
})

test('what has ended needs no memory', async (t) => {
  const holds = createMemoryHolds(createMemoryCounters())
  for (let i = 0; i < 1_000; i += 1) {
    const each = asked(`id ${i}`, 60_000)
    holds.hold(each, 1_000_000 + i * 30_000)
    if (i % 2 === 0) holds.release(each.counters, `id ${i}`)
  }
  t.ok(holds.size <= 16, `${holds.size} of 1000`)
})

test('what requests have taken needs no memory once they have ended', async (t) => {
  const counters = createMemoryCounters()
  const holds = withTaken(createMemoryHolds(counters), counters)
  const taken = [{ key: 'basic\nllm/small\nconcurrency\nada', windowMs: 0, limit: 10_000 }]
  for (let i = 0; i < 1_000; i += 1) {
    const each = { ...asked(`id ${i}`, 60_000), counters: [], taken }
    holds.hold(each, 1_000_000 + i * 30_000)
    if (i % 2 === 0) holds.release(taken, `id ${i}`)
  }
  t.ok(holds.size <= 16, `${holds.size} of 1000`)
})
