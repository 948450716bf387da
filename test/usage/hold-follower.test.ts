import { test } from 'tap'
import type { Counter } from '../../src/ratelimit/rules/counter.ts'
import { createEstimators } from '../../src/ratelimit/rules/estimates/estimators.ts'
import { estimatorOwner } from '../../src/ratelimit/rules/estimates/held-amounts.ts'
import { holdLeaseMs } from '../../src/ratelimit/rules/hold.ts'
import { createHoldFollower } from '../../src/usage/hold-follower.ts'
import type { HeldUsage, Usage } from '../../src/usage/rules/usage.ts'
import { modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { endedLine } from '../support/ended-line.ts'

const now = 1_000_040
const room: HeldUsage = {
  ...{ id: 'a', admittedAt: 1_000_000, bytes: 100, maxOutput: undefined },
  ...{ ceiling: undefined, tookMs: 40, isBroken: false },
}

function watched(spec: object = {}) {
  const calls: unknown[] = []
  const limits = { 'llm/small': [[1_000, '1h']] } as const
  const snapshot = snapshotOf(modelRef('small'), subscription('basic', {}, limits, spec))
  const estimators = createEstimators()
  const held = createHoldFollower({
    snapshot: () => snapshot,
    holds: {
      release: (counters, id) => calls.push(['released', keysOf(counters), id]),
      renew: (counters, id, { mean }) => calls.push(['renewed', keysOf(counters), id, mean]),
    },
    estimators,
  })
  return { ...held, calls, estimators }
}

function keysOf(counters: readonly Counter[]): unknown {
  const keys = counters.map((counter) => counter.key)
  return keys.length === 1 ? keys[0] : keys
}

const usageOf = (usage: Partial<Usage> = {}) => endedLine({ usage }).usage
const key = 'basic\nllm/small\n\nada'

test('what holds room is released, by whatever process', async (t) => {
  const { release, calls } = watched()
  release(usageOf({ held: room }))
  t.strictSame(calls, [['released', key, 'a']])
})

test('what can hold nothing is not released', async (t) => {
  const { release, calls } = watched()
  release(usageOf())
  release(usageOf({ held: { ...room, admittedAt: 0 } }))
  release(usageOf({ subscription: 'gone' }))
  t.strictSame(calls, [])
})

test('where limits are shared, holds end in each home', async (t) => {
  const { follow, release, calls } = watched()
  const limits = [
    'basic pool concurrency group 0',
    'basic all cost subscription day@UTC',
    'Tenant sum requests installation 3600000',
  ]
  const shared = { held: room, limits, pool: 'staff' }
  const taken = [key, 'basic\n#pool\nconcurrency-0\nstaff', 'Tenant\n#sum\nrequests-3600000\n']
  release(usageOf(shared))
  t.strictSame(calls.splice(0), [['released', taken, 'a']])
  const estimate = { input: 10, bytesPerToken: 4 }
  release(usageOf({ ...shared, estimate }))
  follow(usageOf({ ...shared, estimate }), now)
  const cost = 'basic\n#all\ncost-day@UTC\n'
  const all = [key, taken[1], cost, taken[2]]
  t.match(calls, [
    ['released', all, 'a'],
    ['renewed', all, 'a'],
  ])
})

test('where requests reserve each one is released', async (t) => {
  // A line of an earlier form does not say what its request holds.
  const { release, calls } = watched({ admission: { mode: 'reserve' } })
  release(usageOf())
  t.strictSame(calls, [['released', key, 'a']])
})

test('a request that runs keeps its hold', async (t) => {
  const { follow, calls } = watched()
  follow(usageOf({ held: room }), now)
  follow(usageOf(), now)
  t.strictSame(calls, [['renewed', key, 'a', 0]])
})

test('a hold grows to what the rest is expected to use', async (t) => {
  const { follow, calls } = watched()
  const estimate = { input: 10, bytesPerToken: 4 }
  const reported = new Map<string, unknown>([
    ['streamed', true],
    ['text_bytes', 400],
  ])
  follow(usageOf({ held: room, estimate, reported }), now)
  const [[, , , mean]] = calls as [[string, string, string, number]]
  t.ok(mean >= 100, `${mean} of 100 that were sent`)
})

test('an old line renews nothing', async (t) => {
  const { follow, calls } = watched()
  follow(usageOf({ held: room }), now + holdLeaseMs)
  t.strictSame(calls, [])
  follow(usageOf({ held: room }), now + holdLeaseMs - 1)
  t.equal(calls.length, 1)
})

test('what a total has beside its parts is learnt as output', async (t) => {
  const { learn, estimators } = watched()
  const reported = new Map([
    ['prompt_tokens', 20],
    ['completion_tokens', 198],
    ['total_tokens', 623],
  ])
  for (let i = 0; i < 300; i += 1) learn(usageOf({ held: room, reported }), 623)
  const { output } = estimators
    .of(estimatorOwner('basic', 'ada'), 'llm/small')
    .expect({ bytes: 100, maxOutput: undefined })
  t.ok(output > 500 && output < 700, `${output} are expected after responses of 603`)
})
