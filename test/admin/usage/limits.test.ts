import { type Test, test } from 'tap'
import type { ExactInt } from '../../../src/formats/exact.ts'
import { withOpenRequests } from '../../../src/ratelimit/counters.ts'
import { createMemoryHolds } from '../../../src/ratelimit/holds/memory-holds.ts'
import type { Counter } from '../../../src/ratelimit/rules/counter.ts'
import { counterOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import { emptyHold } from '../../../src/ratelimit/rules/hold.ts'
import type { CountedLimit } from '../../../src/ratelimit/rules/limit.ts'
import { runAt } from '../../support/command.ts'
import { createTestCounters } from '../../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'
import { shownEnd, shownStart } from '../../support/window-ends.ts'

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
  name: null,
  kind: 'tokens',
  scope: 'user',
  window: '1m',
  limit: 100,
  used: 0,
  remaining: 100,
  percentLeft: 100,
  enforced: true,
}
const noon = Date.UTC(2026, 2, 1, 12)
const endOf = (window: string, user = 'alice') => ({
  startsAt: shownStart(window, user, noon),
  resetsAt: shownEnd(window, user, noon),
})
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
    { ...premium, used: 120, remaining: 0, percentLeft: 0 },
    {
      ...{ ...premium, window: '24h', limit: 5_000, used: 120, remaining: 4_880 },
      percentLeft: 97,
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

test('a key has limits by name, those that only count, too', async (t) => {
  const api = await createKeyApi(t, { snapshot: pools })
  const { key, id } = await api.createKey('alice', {
    limits: [
      { name: 'own', of: 'cost', limit: '2.5', window: 'day' },
      { name: 'seen', limit: 9, window: '1h', enforce: false },
    ],
  })
  const rows = await read(api, key)
  const zurichDay = { startsAt: '2026-02-28T23:00:00Z', resetsAt: '2026-03-01T23:00:00Z' }
  t.match(rows.slice(-2), [
    { name: 'seen', kind: 'tokens', scope: 'key', limit: 9, enforced: false, ...endOf('1h', id) },
    { name: 'own', kind: 'cost', scope: 'key', limit: '2.5', used: '0', ...zurichDay },
  ])
  t.match(rows.at(-3), { name: 'all', scope: 'installation' })
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
    startsAt: null,
    resetsAt: null,
  }
  t.strictSame(await read(api, 'alice'), [premium, rate, parallel])

  const limits = open.subscriptions.get('premium')?.limits.get('llm/small') ?? []
  const requestCounters = limits
    .slice(1)
    .map((limit) => ({ ...counterOf(limit, 'alice'), limit: 60 }))
  for (const id of ['a', 'b']) await holds.hold({ ...emptyHold, id, requestCounters }, api.now)
  t.strictSame(await read(api, 'alice'), [
    premium,
    { ...rate, used: 2, remaining: 58, percentLeft: 96 },
    { ...parallel, used: 2, remaining: 3, percentLeft: 60 },
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

const zone = { timeZone: 'Europe/Zurich', monthStartsOn: 15 }
const named = { name: 'monthly', window: 'month', limit: 1_000 }
const pools = snapshotOf(
  modelRef('small', { limits: [{ name: 'fair', limit: 400, window: '1h', per: 'model' }] }),
  modelRef('large'),
  modelRef('closed'),
  accessPolicy('open', ['llm/small', 'llm/large'], everybody),
  subscription(
    'premium',
    { groups: ['team-b', 'team-a'], users: ['dora'] },
    { 'llm/small': [minute], 'llm/large': [minute], 'llm/closed': [minute] },
    {
      ofModels: { billingRate: { perToken: '0.000002', perRequest: '0.001' } },
      spec: {
        calendar: zone,
        limits: [
          { name: 'budget', of: 'cost', limit: '50.5', window: 'month', per: 'group' },
          { ...named, per: 'subscription', enforce: false },
          { name: 'two', limit: 70, window: 'day', models: refs('small', 'closed') },
          { name: 'one', of: 'requests', limit: 9, window: 'week', models: refs('large') },
        ],
      },
    },
  ),
  {
    ...{
      apiVersion: 'tollgate.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: 'default-tenant' },
    },
    spec: { limits: [{ name: 'all', limit: 10_000, window: 'day', per: 'installation' }] },
  },
)

function refs(...names: readonly string[]) {
  return names.map((name) => ({ namespace: 'llm', name }))
}

/** What is counted: of the budget for team-a 12.3 units and for dora 1; of the model and of the installation some tokens. */
async function startPools(t: Test) {
  const counters = createTestCounters()
  const options = { readCounters: counters.readFresh, resetCounters: counters.reset }
  const api = await createKeyApi(t, { snapshot: pools, ...options })
  const all = pools.subscriptions.get('premium')?.limits.get('llm/small') ?? []
  const add = (name: string, pool: string, amount: ExactInt) => {
    const limit = all.find(({ limitName }) => limitName === name) as CountedLimit
    counters.add([counterOf(limit, 'alice', pool)], amount as number, api.now)
  }
  add('budget', 'team-a', 12_300_000_000)
  add('budget', '', 1_000_000_000)
  add('fair', '', 399)
  add('all', '', 2_500)
  return { api, counters }
}

const days = { startsAt: '2026-03-01T00:00:00Z', resetsAt: '2026-03-02T00:00:00Z' }
const february = { startsAt: '2026-02-14T23:00:00Z', resetsAt: '2026-03-14T23:00:00Z' }
const budget = {
  ...{ subscription: 'premium', model: null, name: 'budget', kind: 'cost', scope: 'group' },
  ...{ whom: 'team-a', window: 'month', limit: '50.5', used: '12.3', remaining: '38.2' },
  ...{ percentLeft: 75, ...february, enforced: true },
}
const ofTenant = {
  ...{ subscription: null, model: null, name: 'all', kind: 'tokens', scope: 'installation' },
  ...{ window: 'day', limit: 10_000, used: 2_500, remaining: 7_500, percentLeft: 75 },
  ...{ ...days, enforced: true },
}
const untold = { limit: null, used: null, remaining: null }

test('a limit by name is one entry, with who shares it and only own figures', async (t) => {
  const { api } = await startPools(t)
  const answer = (await api.ask(route, { as: 'alice' })).json()
  t.equal(answer.currency, 'EUR')
  const rows = answer.data.filter(({ name }: { name: string | null }) => name !== null)
  const zurichDay = { startsAt: '2026-02-28T23:00:00Z', resetsAt: '2026-03-01T23:00:00Z' }
  const week = { startsAt: '2026-02-22T23:00:00Z', resetsAt: '2026-03-01T23:00:00Z' }
  const mine = { ...budget, scope: 'user', whom: undefined }
  const fair = rows.find(({ name }: { name: string }) => name === 'fair')
  const { whom: _, ...own } = mine
  t.strictSame(rows, [
    {
      ...own,
      ...{ model: 'llm/large', name: 'one', kind: 'requests', window: 'week', ...week },
      ...{ limit: 9, used: 0, remaining: 9, percentLeft: 100 },
    },
    {
      ...own,
      ...{ models: ['llm/small'], name: 'two', kind: 'tokens', window: 'day', ...zurichDay },
      ...{ limit: 70, used: 0, remaining: 70, percentLeft: 100 },
    },
    {
      ...own,
      ...{ name: 'monthly', kind: 'tokens', scope: 'subscription', enforced: false },
      ...{ limit: 1_000, used: 0, remaining: 1_000, percentLeft: 100 },
    },
    budget,
    {
      ...ofTenant,
      ...{ model: 'llm/small', name: 'fair', scope: 'model', window: '1h', percentLeft: 1 },
      ...{ ...untold, startsAt: fair?.startsAt, resetsAt: fair?.resetsAt },
    },
    { ...ofTenant, ...untold },
  ])
  t.equal(Date.parse(fair.resetsAt) - Date.parse(fair.startsAt), 3_600_000, 'both are rounded up')
  const of = async (query: string) =>
    ((await read(api, 'alice', query)) as { name: string | null }[]).map(({ name }) => name)
  t.strictSame(await of('model=llm/large'), [null, 'one', 'monthly', 'budget', 'all'])
})

test('a limit of a key says which models it is about', async (t) => {
  const { api } = await startPools(t)
  const of = { limit: 5, window: 'day' }
  const limits = [
    { name: 'all', ...of },
    { name: 'one', ...of, models: refs('small') },
    { name: 'two', ...of, models: refs('small', 'large') },
  ]
  const { key } = await api.createKey('alice', { subscription: 'premium', limits })
  const asked = async (query: string) =>
    ((await read(api, key, query)) as { name: string; scope: string }[])
      .filter(({ scope }) => scope === 'key')
      .map(({ name }) => name)
  t.match((await read(api, key)).slice(-3), [
    { scope: 'key', name: 'one', model: 'llm/small', models: undefined },
    { scope: 'key', name: 'all', model: null, models: undefined },
    { scope: 'key', name: 'two', model: null, models: ['llm/small', 'llm/large'] },
  ])
  t.strictSame(await asked('model=llm/small'), ['one', 'all', 'two'])
  t.strictSame(await asked('model=llm/large'), ['all', 'two'])
})

test('a key does not see its limits on models that its caps exclude', async (t) => {
  const { api } = await startPools(t)
  const of = { limit: 5, window: 'day' }
  const limits = [
    { name: 'all', ...of },
    { name: 'other', ...of, models: refs('large') },
    { name: 'seen', ...of, models: refs('large'), enforce: false },
    { name: 'two', ...of, models: refs('small', 'large') },
  ]
  const { key } = await api.createKey('alice', { models: refs('small'), limits })
  const own = async (query: string) =>
    ((await read(api, key, query)) as { name: string; scope: string; models?: string[] }[])
      .filter(({ scope }) => scope === 'key')
      .map(({ name, models }) => [name, models])
  const shown = [
    ['all', undefined],
    ['two', ['llm/small']],
  ]
  t.strictSame(await own(''), shown)
  t.strictSame(await own('model=llm/small'), shown)
  t.strictSame(await own('model=llm/large'), [])
  t.strictSame(await own('model=llm/unknown'), [])
})

test('administrators see all shared limits, page by page (200, 403)', async (t) => {
  const { api } = await startPools(t)
  const ask = (query = '', as = 'admin') => api.ask(`GET /v1/admin/limits?${query}`, { as })
  const answer = (await ask()).json()
  const ofDora = { ...budget, whom: 'users', used: '1', remaining: '49.5', percentLeft: 98 }
  const ofB = { ...budget, whom: 'team-b', used: '0', remaining: '50.5', percentLeft: 100 }
  t.match(answer, {
    currency: 'EUR',
    has_more: false,
    data: [
      { subscription: 'premium', name: 'monthly', enforced: false },
      ofDora,
      budget,
      ofB,
      { subscription: null, model: 'llm/small', name: 'fair', limit: 400, used: 399, remaining: 1 },
      ofTenant,
    ],
  })
  t.equal(answer.data.length, 6)
  t.match(api.audited, [{ action: 'counter.read', outcome: 'success', count: 6 }])
  const paged = (await ask('limit=2&offset=1')).json()
  t.match(paged, { has_more: true, data: [ofDora, budget] })
  t.equal((await ask('name=budget&subscription=premium')).json().data.length, 3)
  t.strictSame((await ask('subscription=none')).json().data, [])
  t.equal((await ask('subscription=&model=&name=')).json().data.length, 6)
  refused(t, await ask('', 'alice'), 403, 'admin_required')
  refused(t, await ask('limit=0'), 400)
})

test('a group `users` has the pool of that name, and no second one', async (t) => {
  const limits = [{ name: 'all', limit: 9, window: 'day', per: 'group' }]
  const owner = { groups: ['users', 'team-a'], users: ['dora'] }
  const snapshot = snapshotOf(
    modelRef('small'),
    accessPolicy('open', ['llm/small'], everybody),
    subscription('premium', owner, { 'llm/small': [minute] }, { named: limits }),
  )
  const api = await createKeyApi(t, { snapshot })
  const listed = (await api.ask('GET /v1/admin/limits', { as: 'admin' })).json()
  t.strictSame(listed.data.map(({ whom }: { whom: string }) => whom).sort(), ['team-a', 'users'])
})

test('what a pool has used is shown and reset by its limit and who shares it', async (t) => {
  const { api } = await startPools(t)
  const show = (query: string) => api.ask(`GET /v1/counters?${query}`, { as: 'admin' })
  const found = async (query: string) => (await show(query)).json().data
  t.match(await found('name=budget&subscription=premium'), [
    { whom: 'users', used: '1', limit: '50.5' },
    { whom: 'team-a', used: '12.3' },
  ])
  t.match(await found('name=fair&model=llm/small'), [{ name: 'fair', used: 399, limit: 400 }])
  t.match(await found('name=all'), [{ name: 'all', used: 2_500, subscription: null }])
  t.equal((await found('name=budget')).length, 2, 'of the only resource that has one')
  refused(t, await show('name=other'), 404)
  const stranger = await show('name=budget&subscription=premium&whom=nope')
  refused(t, stranger, 404)
  t.match(stranger.json().error.message, /^whom: no group of this name shares/)
  refused(t, await show('name=budget&model=llm/small'), 404)
  refused(t, await show('name=budget&user=alice&whom=team-a'), 400)

  api.audited.length = 0
  const body = { name: 'budget', whom: 'team-a' }
  const reset = await api.ask('POST /v1/counters/reset', { as: 'admin', body })
  t.match(reset.json(), { reset: [{ whom: 'team-a', used: '12.3' }] })
  const target = { subscription: 'premium', limit: 'budget', whom: 'team-a' }
  t.match(api.audited, [
    { action: 'counter.reset', outcome: 'intent', target },
    { action: 'counter.reset', outcome: 'success', target, count: 1 },
  ])
  api.now += 1
  t.match(await found('name=budget&subscription=premium'), [{ whom: 'users', used: '1' }])
})

test('a name that several resources have is shown of each, and reset of one (400)', async (t) => {
  const more = { named: [{ name: 'x', limit: 9, window: 'day', per: 'subscription' }] }
  const limits = { 'llm/small': [minute] }
  const snapshot = snapshotOf(
    modelRef('small'),
    accessPolicy('open', ['llm/small'], everybody),
    ...['one', 'two'].map((name) => subscription(name, teamA, limits, more)),
  )
  const counters = createTestCounters()
  const options = { readCounters: counters.readFresh, resetCounters: counters.reset }
  const api = await createKeyApi(t, { snapshot, ...options })
  for (const { limits } of snapshot.subscriptions.values()) {
    const [, x] = limits.get('llm/small') ?? []
    counters.add([counterOf(x as CountedLimit, '')], 1, api.now)
  }
  const listed = (await api.ask('GET /v1/counters?name=x', { as: 'admin' })).json()
  t.match(listed.data, [{ subscription: 'one' }, { subscription: 'two' }])
  const reset = (body: object) => api.ask('POST /v1/counters/reset', { as: 'admin', body })
  const answer = await reset({ name: 'x' })
  refused(t, answer, 400)
  t.match(answer.json().error.message, 'several have a limit of this name, one and two;')
  t.match((await reset({ name: 'x', subscription: 'two' })).json(), { reset: { length: 1 } })
})

test('the command shows all shared limits, and one of them', async (t) => {
  const { api } = await startPools(t)
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const run = async (user: string, ...args: string[]) =>
    await runAt({ env: { TOLLGATE_URL: url, TOLLGATE_TOKEN: `${user}-token` } }, 'limits', ...args)
  const all = await run('admin', '--all')
  t.match(all.out, /^premium +all +budget +group team-a +cost +month +38\.2 EUR +50\.5 EUR +2026-/m)
  t.match(all.out, /^ +all +all +all of the installation +tokens +day +7,500 +10,000 /m)
  const own = await run('alice')
  t.match(own.out, /^ +llm\/small +fair +all of the model +tokens +1h +1% +- /m)
  t.match(own.out, /^premium +all +monthly \(only counted\) +subscription premium /m)
  const one = await run('admin', '--limit', 'budget', '--json')
  t.equal(JSON.parse(one.out).data.length, 2)
  const shown = (await run('admin', '--limit', 'budget')).out
  t.match(shown, /^premium +all +budget +group team-a +cost +month +12\.3 EUR +50\.5 EUR +2026-/m)
  for (const [args, err] of [
    [['budgets'], /^--limit: no limit of this name is in force\.$/],
    [
      ['fair', '--subscription', 'premium'],
      /^--limit: .* only budget, .*; others with a limit of this name: ModelRef llm/,
    ],
    [['fair', '--subscription', 'none'], /^--subscription: Subscription none is not in force, or/],
  ] as const)
    t.match(await run('admin', '--limit', ...args), { status: 1, err }, args.join(' '))
  t.match(await run('admin', '--all', '--user', 'alice'), { status: 2 })
})
