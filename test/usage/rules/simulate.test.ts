import { test } from 'tap'
import { authorize } from '../../../src/decide/decide.ts'
import { createLimitEnforcer } from '../../../src/extauthz/check-limits.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import { pathRules } from '../../../src/operations/operations.ts'
import { parseTarget } from '../../../src/operations/request-target.ts'
import { createMemoryHolds } from '../../../src/ratelimit/holds/memory-holds.ts'
import { createEstimators } from '../../../src/ratelimit/rules/estimates/estimators.ts'
import { lineUses } from '../../../src/usage/rules/line-charges.ts'
import { type PastUsage, simulate } from '../../../src/usage/rules/simulate.ts'
import { chargeOf, type Usage } from '../../../src/usage/rules/usage.ts'
import { createTestCounters } from '../../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createRandom, type Random } from '../../support/random.ts'
import { endOf } from '../../support/window-ends.ts'

const worlds = 60
const requestsPerWorld = 300
const begin = Date.UTC(2026, 0, 1)
const models = ['llm/one', 'llm/two']
const subscriptions = ['basic', 'premium']
const users = ['ada', 'bob', 'eve']
const windows = ['1s', '10s', '1m', '5m']

const pick = <Value>(random: Random, values: readonly Value[]): Value =>
  values[random.below(values.length)] as Value

/** Limits by name by chance, of these models or of all; of users and of those who share one. */
function namedLimits(random: Random, models: readonly string[]): readonly object[] {
  const kinds = ['tokens', 'output', 'requests', 'concurrency', 'cost'] as const
  return Array.from({ length: random.below(4) }, (_, i) => {
    const of = pick(random, kinds)
    const few = 1 + random.below(10)
    const [namespace, name] = pick(random, models).split('/')
    return {
      ...{ name: `limit-${i}`, of, per: pick(random, ['user', 'subscription']) },
      limit: of === 'cost' ? `0.${few}` : ['requests', 'concurrency'].includes(of) ? few : few * 90,
      ...(of !== 'concurrency' && { window: pick(random, windows) }),
      ...(random.below(2) === 0 && { models: [{ namespace, name }] }),
      ...(random.below(5) === 0 && { enforce: false }),
    }
  })
}

/** Resources of the same models and subscriptions, with limits by chance. */
function createWorld(random: Random): Snapshot {
  const limitsOf = () =>
    Array.from({ length: 1 + random.below(2) }, (): [number, string] => [
      1 + random.below(2_000),
      pick(random, windows),
    ])
  return snapshotOf(
    ...models.map((key) => modelRef(key.split('/')[1] as string)),
    accessPolicy('open', models, { users }),
    ...subscriptions.map((name) => {
      const covered = random.below(8) === 0 ? models.slice(0, 1) : models
      const counted = {
        ...(random.below(2) === 0 && {
          requestRateLimits: [{ limit: 1 + random.below(20), window: pick(random, windows) }],
        }),
        ...(random.below(2) === 0 && { concurrency: 1 + random.below(4) }),
      }
      const limits = Object.fromEntries(covered.map((model) => [model, limitsOf()]))
      const ofModels = { ...counted, billingRate: { perToken: '0.0005', perRequest: '0.01' } }
      const spec = { limits: namedLimits(random, covered) }
      return subscription(name, { users }, limits, { ofModels, spec })
    }),
  )
}

function createRequests(random: Random): readonly PastUsage[] {
  const spenders = users.flatMap((user) =>
    subscriptions.flatMap((name) => models.map((model) => ({ user, subscription: name, model }))),
  )
  let at = begin
  return Array.from({ length: requestsPerWorld }, () => {
    // Often at one moment, where one of them ends, or at once.
    at += 500 * random.below(8)
    const tokens = random.below(5) === 0 ? 0 : random.below(600)
    const endedAt = at + 500 * random.below(40)
    return { spender: pick(random, spenders), startedAt: at, endedAt, tokens }
  })
}

/** What the decision itself, with counters in memory, does with the requests; those that it refuses. */
async function run(requests: readonly PastUsage[], snapshot: Snapshot): Promise<Set<PastUsage>> {
  const counters = createTestCounters()
  const holds = createMemoryHolds(counters.windows)
  const estimators = createEstimators()
  const pause = async () => {}
  const limits = createLimitEnforcer({
    counters,
    holding: { holds, estimators, onLoss: 'deny', pause },
  })
  const idOf = (past: PastUsage) =>
    `00000000-0000-4000-8000-${String(requests.indexOf(past)).padStart(12, '0')}`
  const refused = new Set<PastUsage>()
  /** How lines say that they are charged. */
  const tariffs = new Map<PastUsage, Pick<Usage, 'prices' | 'limits'>>()
  const steps = requests.flatMap((past) => [
    { at: past.startedAt, isEnd: false, past },
    { at: past.endedAt, isEnd: true, past },
  ])
  // What ends as another request begins is counted before, unless it has just begun itself.
  const rank = ({ isEnd, past }: (typeof steps)[0]) =>
    isEnd && past.endedAt > past.startedAt ? 0 : 1
  steps.sort((a, b) => a.at - b.at || rank(a) - rank(b))
  for (const { at: now, isEnd, past } of steps) {
    const { user, subscription: name, model } = past.spender
    if (isEnd) {
      if (refused.has(past)) continue
      const id = idOf(past)
      const reported = new Map([['total_tokens', past.tokens]])
      const ended = { status: 200, bytes: 0, reported, response: { id, endedAt: now } }
      const usage = { ...past.spender, ...ended, ...tariffs.get(past) }
      const line = { state: 'ended', isMetered: true, startedAt: past.startedAt, usage } as const
      const counted = lineUses({ ...line, charge: chargeOf(usage, 'allow') }, snapshot)
      for (const { at, amount, counters: all } of counted) counters.add(all, amount, at)
      holds.release([], id)
      continue
    }
    const target = parseTarget(`/${model}/v1/chat/completions`)
    if (target === undefined) throw new Error(model)
    const caller = { by: 'key', user, groups: [], keyId: 'key', subscription: name } as const
    const request = {
      ...{ caller, target, method: 'POST', bodyModel: undefined },
      requestedSubscription: undefined,
      requestId: idOf(past),
    }
    const granted = authorize(request, snapshot, pathRules())
    const decision = granted.allowed ? await limits(granted, request, now) : granted
    if (!decision.allowed) refused.add(past)
    else tariffs.set(past, JSON.parse(`{${decision.tariff ?? ''}}`))
  }
  return refused
}

/** By whom, with the first and the last. */
function summary(refused: Iterable<PastUsage>): Readonly<Record<string, readonly number[]>> {
  const all: Record<string, [number, number, number, number]> = {}
  for (const { spender, startedAt, tokens } of refused) {
    const { user, subscription: name, model } = spender
    const [requests, sum, first] = all[`${user} ${name} ${model}`] ?? [0, 0, startedAt]
    all[`${user} ${name} ${model}`] = [requests + 1, sum + tokens, first, startedAt]
  }
  return all
}

test('what would have been refused is what was refused', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const kinds: Record<string, number> = {}
  for (let i = 0; i < worlds; i += 1) {
    const requests = createRequests(random)
    const snapshot = createWorld(random)
    const refused = await run(requests, snapshot)
    const { refusals, answers } = simulate(requests, snapshot)
    t.equal(answers, requests.length)
    const found: Record<string, readonly number[]> = {}
    for (const { user, subscription: name, model, by, ...sums } of refusals) {
      const kind = typeof by === 'string' ? by : by.kind
      kinds[kind] = (kinds[kind] ?? 0) + sums.requests
      const key = `${user} ${name} ${model}`
      const [requests = 0, tokens = 0, first = sums.firstAt, last = 0] = found[key] ?? []
      found[key] = [
        ...[requests + sums.requests, tokens + sums.tokens],
        ...[Math.min(first, sums.firstAt), Math.max(last, sums.lastAt)],
      ]
    }
    t.strictSame(found, summary(refused), `world ${i}`)
    // The journal has the answers only: with the resources of then, none of them is refused.
    const answered = requests.filter((past) => !refused.has(past))
    t.strictSame(simulate(answered, snapshot).refusals, [], `the answers of world ${i}`)
  }
  t.comment(JSON.stringify(kinds))
  for (const kind of ['tokens', 'requests', 'concurrency', 'model_not_in_subscription'])
    t.ok((kinds[kind] ?? 0) > 20, kind)
})

test('tokens count in the window of the end, or of the admission where it says so', async (t) => {
  const spender = { user: 'ada', subscription: 'basic', model: 'llm/one' }
  const end = endOf('1m', 'ada', begin)
  const usage = [
    { spender, startedAt: end - 2_000, endedAt: end + 1_000, tokens: 100 },
    { spender, startedAt: end + 2_000, endedAt: end + 3_000, tokens: 1 },
    { spender, startedAt: end + 60_000, endedAt: end + 60_001, tokens: 1 },
  ]
  for (const [admission, refused] of [
    [{}, [end + 2_000]],
    [{ mode: 'reserve', charge: 'end' }, [end + 2_000]],
    [{ mode: 'reserve' }, []],
  ] as const) {
    const snapshot = snapshotOf(
      modelRef('one'),
      subscription('basic', { users: ['ada'] }, { 'llm/one': [[100, '1m']] }, { admission }),
    )
    const { refusals, limits } = simulate(usage, snapshot)
    t.strictSame(
      refusals.map(({ firstAt }) => firstAt),
      refused,
    )
    t.match(limits, [{ most: 100, mostBy: 'ada', mostAt: end + 1_000 }])
  }
})

test('sums of hours count in the window that the hour begins in', async (t) => {
  const spender = { user: 'ada', subscription: 'basic', model: 'llm/one' }
  const hour = 3_600_000
  const end = endOf('24h', 'ada', begin)
  const last = end - (end % hour)
  const usage = [last - hour, last, last + hour].map((startedAt) => {
    return { spender, startedAt, endedAt: startedAt + hour - 1, tokens: 60, answers: 3 }
  })
  const snapshot = snapshotOf(
    modelRef('one'),
    subscription('basic', { users: ['ada'] }, { 'llm/one': [[90, '24h']] }),
  )
  const { refusals, limits } = simulate(usage, snapshot)
  t.match(refusals, [{ firstAt: last, tokens: 30, requests: 2, isEstimate: true }])
  t.equal(refusals.length, 1)
  t.match(limits, [{ most: 90 }])
})
