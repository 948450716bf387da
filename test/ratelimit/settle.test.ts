import { test } from 'tap'
import { nothingReported, type UnusableUsage, type Usage } from '../../src/core/decision/usage.ts'
import { createSettle } from '../../src/ratelimit/settle.ts'
import { createMemoryCounters } from '../../src/store/counters/memory.ts'
import { modelRef, snapshotOf, subscription } from '../support/documents.ts'

const start = 1_000_000
const total = (tokens: unknown) => new Map([['total_tokens', tokens]])
const usage: Usage = {
  user: 'ada',
  subscription: 'basic',
  model: 'llm/small',
  status: 200,
  reported: total(40),
  bytes: 1_001,
}
const counters = (user = 'ada') => [
  { key: `basic\nllm/small\n60000\n${user}`, windowMs: 60_000 },
  { key: `basic\nllm/small\n3600000\n${user}`, windowMs: 3_600_000 },
]

function createWorld(
  rates: readonly (readonly [number, string])[] = [
    [100, '1m'],
    [900, '1h'],
  ],
  unusableUsage: UnusableUsage = 'allow',
) {
  const store = createMemoryCounters()
  const settled: unknown[] = []
  const counted: unknown[] = []
  const clock = { now: start }
  let snapshot = snapshotOf(modelRef('small'), subscription('basic', {}, { 'llm/small': rates }))
  const settle = createSettle({
    snapshot: () => snapshot,
    counters: store,
    clock: () => clock.now,
    unusableUsage,
    onSettled: (_, { tokens }) => settled.push(tokens),
    onCounted: ({ user }, { tokens, estimated }, by) => counted.push([user, tokens, estimated, by]),
  })
  return {
    settle,
    store,
    settled,
    counted,
    clock,
    replace(fresh: typeof snapshot) {
      snapshot = fresh
    },
    used: (user?: string) => {
      const states = store.read(counters(user), clock.now)
      return states instanceof Promise ? [] : states.map((state) => state?.used)
    },
  }
}

test('a response is counted in every window', async (t) => {
  const { settle, used, settled } = createWorld()
  for (let answer = 0; answer < 3; answer += 1) settle(usage)
  t.strictSame(used(), [120, 120], 'whole, even beyond the limit')
  t.strictSame(used('bob'), [undefined, undefined])
  t.strictSame(settled, [40, 40, 40])
})

test('a success without usage is estimated if the setting says so', async (t) => {
  const { settle, used, settled } = createWorld([[900, '1h']], 'estimate')
  settle({ ...usage, reported: nothingReported })
  settle({ ...usage, reported: total('40') })
  settle({ ...usage, reported: nothingReported, status: 500 })
  settle(usage)
  t.strictSame(settled, [251, 251, undefined, 40], 'one token for every four bytes, rounded up')
  t.strictSame(used(), [undefined, 542])
})

test('windows of equal length are charged once', async (t) => {
  const { settle, used } = createWorld([
    [100, '1m'],
    [50, '60s'],
  ])
  settle(usage)
  t.strictSame(used(), [40, undefined])
})

test('a response without tokens opens no window', async (t) => {
  const { settle, store, settled } = createWorld()
  settle({ ...usage, reported: total(0) })
  t.equal(store.size, 0)
  t.strictSame(settled, [0], 'although its usage was valid')
})

test('usage that cannot be counted is reported', async (t) => {
  const { settle, store, settled } = createWorld()
  for (const more of [
    { status: 500 },
    { status: 0 },
    { reported: nothingReported },
    { reported: total('40') },
    { reported: total(1.5) },
    { reported: total(-40) },
    { reported: total(Number.POSITIVE_INFINITY) },
    { reported: total(Number.NaN) },
  ]) {
    settle({ ...usage, ...more })
  }
  t.equal(store.size, 0)
  t.strictSame(settled, Array(8).fill(undefined))
})

test('the first count opens a window', async (t) => {
  const { settle, used, clock } = createWorld()
  settle(usage)
  clock.now = start + 59_999
  settle(usage)
  t.strictSame(used(), [80, 80])
  clock.now = start + 60_000
  t.strictSame(used(), [undefined, 80])
  settle(usage)
  t.strictSame(used(), [40, 120])
})

test('a response that is reported twice is counted once', async (t) => {
  const { settle, used, settled, clock } = createWorld()
  const response = { id: 'one', endedAt: start - 1_000 }
  settle({ ...usage, response })
  settle({ ...usage, response }, 'journal')
  settle({ ...usage, response })
  t.strictSame(used(), [40, 40])
  t.equal(settled.length, 3)
  settle({ ...usage, response: { ...response, id: 'two' } }, 'journal')
  t.strictSame(used(), [80, 80])
  clock.now = start - 1_000 + 60_000
  t.strictSame(used(), [undefined, 80], 'the window begins at the end of the first response')
})

test('a journal is counted in the windows of its time', async (t) => {
  const { settle, used, clock } = createWorld()
  const ended = (id: string, ageMs: number) => ({ response: { id, endedAt: clock.now - ageMs } })
  // The window of one minute has ended, that of one hour has not: the same as without a restart.
  settle({ ...usage, ...ended('one', 90_000) }, 'journal')
  settle({ ...usage, ...ended('two', 31_000) }, 'journal')
  t.strictSame(used(), [undefined, 80])
  settle({ ...usage, ...ended('three', 29_000) }, 'journal')
  t.strictSame(used(), [40, 120])
})

test('usage under removed limits is not counted', async (t) => {
  const { settle, store, settled, replace } = createWorld()
  replace(snapshotOf(modelRef('small')))
  settle(usage)
  settle({ ...usage, user: 'undefined', subscription: 'undefined', model: 'undefined' })
  t.equal(store.size, 0)
  t.strictSame(settled, [40, 40])
})

test('tokens are reported once, by the source that counted them first', async (t) => {
  const { settle, counted } = createWorld([[900, '1h']], 'estimate')
  const response = { id: 'one', endedAt: start }
  settle({ ...usage, response }, 'journal')
  settle({ ...usage, response })
  settle({ ...usage, response: { ...response, id: 'two' } })
  settle({ ...usage, response: { ...response, id: 'two' } }, 'journal')
  settle(usage)
  settle({ ...usage, reported: nothingReported })
  settle({ ...usage, reported: total(0) })
  settle({ ...usage, status: 500 })
  t.strictSame(counted, [
    ['ada', 40, 0, 'journal'],
    ['ada', 40, 0, 'stream'],
    ['ada', 40, 0, 'stream'],
    ['ada', 251, 251, 'stream'],
  ])
})

test('tokens without a limit are reported too', async (t) => {
  const { settle, counted, replace } = createWorld()
  replace(snapshotOf())
  const response = { id: 'one', endedAt: start }
  settle({ ...usage, response })
  settle({ ...usage, response }, 'journal')
  t.equal(counted.length, 1)
})
