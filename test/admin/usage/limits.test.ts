import { test } from 'tap'
import { withOpenRequests } from '../../../src/ratelimit/counters.ts'
import { createMemoryHolds } from '../../../src/ratelimit/holds/memory.ts'
import { type Counter, counterOf } from '../../../src/ratelimit/rules/counter.ts'
import { noTokens } from '../../../src/ratelimit/rules/hold.ts'
import { createTestCounters } from '../../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'
import { shownEnd } from '../../support/window-ends.ts'

const route = 'GET /v1/limits'
const minute = [100, '1m'] as const
const day = [5_000, '24h'] as const
const everybody = { groups: ['team-a', 'team-b'] }
const teamA = { groups: ['team-a'] }
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('closed'),
  accessPolicy('open', ['llm/small'], everybody),
  subscription('premium', teamA, { 'llm/small': [day, minute], 'llm/closed': [minute] }),
  subscription('basic', everybody, { 'llm/small': [minute] }),
  subscription('b-only', { groups: ['team-b'] }, { 'llm/small': [minute] }),
  subscription('leaving', teamA, { 'llm/small': [minute] }, { deleting: true }),
)

async function read(api: KeyApi, as: string, query = ''): Promise<unknown[]> {
  const answer = await api.ask(`${route}?${query}`, { as })
  if (answer.statusCode !== 200) throw new Error(answer.body)
  return answer.json().data
}

const unused = {
  model: 'llm/small',
  kind: 'tokens',
  scope: 'user',
  window: '1m',
  limit: 100,
  used: 0,
  remaining: 100,
}
const noon = Date.UTC(2026, 2, 1, 12)
const endOf = (window: string, user = 'alice') => ({ resetsAt: shownEnd(window, user, noon) })
const basic = { ...unused, subscription: 'basic', ...endOf('1m') }

test('a caller sees what is left of own limits (200)', async (t) => {
  const counters = createTestCounters()
  const api = await createKeyApi(t, { snapshot, readCounters: counters.readFresh })
  const limits = snapshot.subscriptions.get('premium')?.limits.get('llm/small') ?? []
  counters.add(
    limits.map((limit) => counterOf(limit, 'alice')),
    120,
    api.now,
  )
  const premium = { ...basic, subscription: 'premium' }
  const used = [
    { ...premium, used: 120, remaining: 0 },
    {
      ...{ ...premium, window: '24h', limit: 5_000, used: 120, remaining: 4_880 },
      ...endOf('24h'),
    },
  ]
  t.strictSame(await read(api, 'alice'), [basic, ...used])
  const { key } = await api.createKey('alice', { subscription: 'premium' })
  t.strictSame(await read(api, key), used, 'with a key, those of its subscription')
  t.strictSame(await read(api, key, 'subscription=basic'), [])
  t.strictSame(await read(api, 'alice', 'subscription=basic'), [basic])
  t.strictSame(await read(api, 'alice', 'model=llm/closed'), [])
  const ofBob = { ...basic, ...endOf('1m', 'bob') }
  t.strictSame(await read(api, 'bob'), [{ ...ofBob, subscription: 'b-only' }, ofBob])
  t.strictSame(await read(api, 'carol', 'subscription=premium'), [
    { ...premium, ...endOf('1m', 'carol') },
    { ...premium, window: '24h', limit: 5_000, remaining: 5_000, ...endOf('24h', 'carol') },
  ])
  t.strictSame(await read(api, 'stranger'), [])
})

test('a capped key sees its own limits, and only models that it may call', async (t) => {
  const open = snapshotOf(
    modelRef('small'),
    modelRef('large'),
    accessPolicy('open', ['llm/small', 'llm/large'], everybody),
    subscription('premium', teamA, { 'llm/small': [minute], 'llm/large': [minute] }),
  )
  const api = await createKeyApi(t, { snapshot: open })
  const { key, id } = await api.createKey('alice', {
    models: [{ namespace: 'llm', name: 'small' }],
    tokenRateLimits: [{ limit: 40, window: '1h' }],
  })
  const premium = { ...basic, subscription: 'premium' }
  t.strictSame(await read(api, key), [
    premium,
    {
      ...premium,
      model: null,
      scope: 'key',
      window: '1h',
      limit: 40,
      remaining: 40,
      ...endOf('1h', id),
    },
  ])
  t.strictSame(await read(api, 'alice'), [{ ...premium, model: 'llm/large' }, premium])
})

test('requests and concurrency have their kind', async (t) => {
  const ofModels = { requestRateLimits: [{ limit: 60, window: '1m' }], concurrency: 5 }
  const open = snapshotOf(
    modelRef('small'),
    accessPolicy('open', ['llm/small'], everybody),
    subscription('premium', teamA, { 'llm/small': [minute] }, { ofModels }),
  )
  const counters = createTestCounters()
  const holds = createMemoryHolds(counters.windows)
  const readCounters = withOpenRequests(counters.readFresh, holds)
  const api = await createKeyApi(t, { snapshot: open, readCounters })
  const premium = { ...basic, subscription: 'premium' }
  const rate = { ...premium, kind: 'requests', limit: 60, remaining: 60 }
  const parallel = {
    ...premium,
    kind: 'concurrency',
    window: null,
    limit: 5,
    remaining: 5,
    resetsAt: null,
  }
  t.strictSame(await read(api, 'alice'), [premium, rate, parallel])

  const limits = open.subscriptions.get('premium')?.limits.get('llm/small') ?? []
  const taken = limits.slice(1).map((limit) => ({ ...counterOf(limit, 'alice'), limit: 60 }))
  for (const id of ['a', 'b']) await holds.hold({ ...noTokens, id, taken }, api.now)
  t.strictSame(await read(api, 'alice'), [
    premium,
    { ...rate, used: 2, remaining: 58 },
    { ...parallel, used: 2, remaining: 3 },
  ])
  const others = [premium, rate].map((each) => ({ ...each, ...endOf('1m', 'carol') }))
  t.strictSame(await read(api, 'carol'), [...others, parallel], 'those of another user')
  const listed = await api.ask('GET /v1/subscriptions', { as: 'alice' })
  t.match(listed.json(), [
    { model_refs: [{ request_rate_limits: [{ limit: 60, window: '1m' }], concurrency: 5 }] },
  ])
})

test('many limits are read in part', async (t) => {
  const models = Array.from({ length: 1_001 }, (_, i) => `m${i}`)
  const keys = models.map((name) => `llm/${name}`)
  const asked: number[] = []
  const api = await createKeyApi(t, {
    snapshot: snapshotOf(
      ...models.map((name) => modelRef(name)),
      accessPolicy('open', keys, everybody),
      subscription('premium', teamA, Object.fromEntries(keys.map((key) => [key, [minute]]))),
    ),
    async readCounters(counters: readonly Counter[]) {
      asked.push(counters.length)
      return counters.map(() => ({ used: 0, resetsAt: noon }))
    },
  })
  const answer = (await api.ask(route, { as: 'alice' })).json()
  t.match(answer, { has_more: true, data: { length: 1_000 } })
  t.match((await api.ask(`${route}?model=llm/m7`, { as: 'alice' })).json(), {
    has_more: false,
    data: [{ model: 'llm/m7' }],
  })
  t.strictSame(asked, [1_000, 1])
})

test('a misspelled parameter, or no credential, is refused (400, 401)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  refused(t, await api.ask(`${route}?modle=x`, { as: 'alice' }), 400)
  refused(t, await api.ask(route), 401)
})
