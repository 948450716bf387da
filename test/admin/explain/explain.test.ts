import { type Test, test } from 'tap'
import type { PeerRefusals } from '../../../src/decide/past-refusal.ts'
import { createLimitEnforcer } from '../../../src/extauthz/check-limits.ts'
import { createRefusalMemory } from '../../../src/extauthz/refusal-memory.ts'
import type { ApiKeyRecord } from '../../../src/keys/rules/api-key.ts'
import { compileCaps } from '../../../src/keys/rules/compiled-caps.ts'
import { withOpenRequests } from '../../../src/ratelimit/counters.ts'
import { createMemoryHolds } from '../../../src/ratelimit/holds/memory-holds.ts'
import { counterOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import { createEstimators } from '../../../src/ratelimit/rules/estimates/estimators.ts'
import { emptyHold } from '../../../src/ratelimit/rules/hold.ts'
import type { CountedLimit } from '../../../src/ratelimit/rules/limit.ts'
import { createTestCounters } from '../../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { type Asked, createKeyApi } from '../../support/key-api.ts'
import { noOtherProcess } from '../../support/no-other-process.ts'
import { refused } from '../../support/refusals.ts'
import { shownEnd } from '../../support/window-ends.ts'

const route = 'POST /v1/explain'
const endsAt = shownEnd('1m', 'alice', Date.UTC(2026, 2, 1, 12))
const snapshot = snapshotOf(
  // Its bodies may use these names only, and none is its namespace/name.
  modelRef('small', { modelIds: ['small-1'] }),
  modelRef('secret'),
  accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
  accessPolicy('other-team', ['llm/small', 'llm/secret'], { groups: ['team-b'] }),
  subscription('basic', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] }),
  subscription('b-only', { groups: ['team-b'] }, { 'llm/secret': [[50, '1m']] }),
)

async function createWorld(
  t: Test,
  othersRefusals = noOtherProcess,
  more: Partial<Parameters<typeof createKeyApi>[1]> = {},
) {
  const counters = createTestCounters()
  const pastRefusals = createRefusalMemory()
  const api = await createKeyApi(t, {
    ...{ snapshot, pastRefusals, othersRefusals },
    readCounters: counters.readFresh,
    ...more,
  })
  const explain = async (as: string, body: object, status = 200) => {
    const answer = await api.ask(route, { as, body })
    t.equal(answer.statusCode, status, answer.body)
    return answer.json()
  }
  return { api, counters, pastRefusals, explain }
}

test('a key is let through: every step, who pays, what is left, until when', async (t) => {
  const { api, counters, explain } = await createWorld(t)
  const { key, id } = await api.createKey('alice', { expiresIn: '1d' })
  const [limit] = snapshot.subscriptions.get('basic')?.limits.get('llm/small') ?? []
  if (limit === undefined) throw new Error('no limit')
  counters.add([counterOf(limit, 'alice')], 30, api.now)
  const expected = {
    allowed: true,
    user: 'alice',
    keyId: id,
    model: 'llm/small',
    policies: [{ kind: 'AccessPolicy', name: 'open', opens: true }],
    subscriptions: [{ name: 'basic', pays: true }],
    limits: [{ window: '1m', limit: 100, used: 30, remaining: 70, resetsAt: endsAt }],
    changesAt: '2026-03-02T12:00:00Z',
  }
  const steps = ['credential', 'path', 'model', 'operation', 'subscription', 'backend', 'limits']
  for (const asked of [
    { keyId: id, model: 'llm/small' },
    { keyId: id, model: 'small' },
    { keyId: id, model: 'small-1' },
    { keyId: id, path: '/llm/small/v1/chat/completions' },
  ]) {
    const answer = await explain('alice', asked)
    t.match(answer, expected)
    t.same(
      answer.steps.map(({ step }: { step: string }) => step),
      steps,
    )
    t.notMatch(JSON.stringify(answer), /yaml|other-team|b-only/)
  }
  t.match(await explain(key, { model: 'small' }), { allowed: true, keyId: id })
  t.match(counters.read([counterOf(limit, 'alice')], api.now), [{ used: 30 }], 'nothing is counted')
})

test('a method without a body names no model on a shared path', async (t) => {
  const { api, explain } = await createWorld(t)
  const { id: keyId } = await api.createKey('alice')
  const path = '/v1/embeddings'
  t.match(await explain('alice', { keyId, model: 'small', path }), { allowed: true })
  for (const method of ['GET', 'HEAD']) {
    const refusal = { allowed: false, status: 400, code: 'model_path_needed' }
    t.match(await explain('alice', { keyId, model: 'small', path, method }), refusal)
    t.match(await explain('alice', { keyId, model: 'small', method }), refusal)
  }
  t.match(await explain('alice', { keyId, model: 'llm/small', method: 'GET' }), {
    model: 'llm/small',
  })
})

test('whether Envoy may decide it by itself, and if not, why', async (t) => {
  let condition: 'open' | 'closed' | 'off' = 'open'
  const { api, explain } = await createWorld(t, noOtherProcess, { tableCondition: () => condition })
  const { id } = await api.createKey('alice', { expiresIn: '10d' })
  const tableOf = async (asked: object) => (await explain('alice', { keyId: id, ...asked })).table
  const path = '/llm/small/v1/chat/completions'
  t.strictSame(await tableOf({ path }), { decides: true })
  t.strictSame(await tableOf({ method: 'GET', path: '/llm/small/v1/models' }), {
    decides: false,
    reason: 'operation',
  })
  const soon = new Date(api.now + 9.5 * 86_400_000).toISOString()
  t.strictSame(await tableOf({ path, at: soon }), { decides: false, reason: 'key_news' })
  t.equal(await tableOf({ path: '/llm/secret/v1/chat/completions' }), undefined, 'a refusal')
  for (condition of ['closed', 'off'] as const) {
    t.strictSame(await tableOf({ path }), { decides: false, reason: condition })
  }
})

test('a spent limit: when it ends, and what is true afterwards', async (t) => {
  const { api, counters, explain } = await createWorld(t)
  const [limit] = snapshot.subscriptions.get('basic')?.limits.get('llm/small') ?? []
  if (limit === undefined) throw new Error('no limit')
  counters.add([counterOf(limit, 'alice')], 130, api.now)
  const answer = await explain('alice', { model: 'small' })
  t.match(answer, {
    ...{ allowed: false, status: 429, code: 'rate_limit_exceeded' },
    limits: [{ used: 130, remaining: 0 }],
    changesAt: endsAt,
  })
  t.match(answer.steps.at(-1), {
    step: 'limits',
    passed: false,
    resource: { kind: 'Subscription', name: 'basic' },
  })
  t.match(await explain('alice', { model: 'small', at: endsAt }), {
    allowed: true,
    limits: [{ used: 0, remaining: 100, resetsAt: shownEnd('1m', 'alice', Date.parse(endsAt)) }],
  })
  t.match(await explain('alice', { model: 'small' }), { allowed: false }, 'the counter is kept')
})

const teams = { groups: ['team-a', 'team-b'] }
const shared = snapshotOf(
  modelRef('small'),
  modelRef('free'),
  accessPolicy('open', ['llm/small', 'llm/free'], teams),
  subscription(
    'basic',
    teams,
    { 'llm/small': [[100, '1m']], 'llm/free': [[100, '1m']] },
    {
      spec: {
        modelRefs: [
          {
            ...{ namespace: 'llm', name: 'small' },
            tokenRateLimits: [{ limit: 100, window: '1m' }],
          },
          {
            ...{ namespace: 'llm', name: 'free' },
            tokenRateLimits: [{ limit: 100, window: '1m' }],
          },
        ].map((each, i) => (i === 0 ? { ...each, billingRate: { perToken: '0.1' } } : each)),
        limits: [{ name: 'budget', of: 'cost', limit: '5', window: 'month', per: 'group' }],
      },
    },
  ),
  {
    ...{
      apiVersion: 'tollgate.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: 'default-tenant' },
    },
    spec: { limits: [{ name: 'all', limit: 10, window: 'day', per: 'installation' }] },
  },
)

test('limits by name say who shares them; figures of all are for administrators', async (t) => {
  const { api, counters, explain } = await createWorld(t, noOtherProcess, { snapshot: shared })
  const { id: keyId } = await api.createKey('alice')
  const asked = { keyId, model: 'llm/small' }
  const [, budget, all] = shared.subscriptions.get('basic')?.limits.get('llm/small') ?? []
  if (budget === undefined || all === undefined) throw new Error('no limits')
  counters.add([counterOf(budget, '', 'team-a')], 1_500_000_000, api.now)
  counters.add([counterOf(all, '')], 4, api.now)
  const ofTeam = {
    ...{ name: 'budget', kind: 'cost', scope: 'group', whom: 'team-a', window: 'month' },
    ...{ limit: '5', used: '1.5', remaining: '3.5', percentLeft: 70 },
  }
  const ofAll = { name: 'all', scope: 'installation', percentLeft: 60 }
  t.match((await explain('alice', asked)).limits, [
    { name: null, used: 0 },
    ofTeam,
    { ...ofAll, limit: null, used: null, remaining: null },
  ])
  t.match((await explain('admin', asked)).limits[2], { ...ofAll, limit: 10, used: 4 })
  counters.add([counterOf(budget, '', 'team-a')], 3_500_000_000, api.now)
  const spent = await explain('alice', asked)
  t.match(spent, { allowed: false, status: 429, code: 'insufficient_quota' })
  t.match(spent, { currency: 'EUR', changesAt: '2026-04-01T00:00:00Z' })
})

test('the result changes when increases end that are used, or the key expires', async (t) => {
  const limit = { name: 'daily', of: 'tokens', limit: 100, window: 'day' }
  const snapshot = snapshotOf(
    modelRef('small'),
    accessPolicy('open', ['llm/small'], teams),
    subscription('basic', teams, { 'llm/small': [[1_000, '1m']] }, { named: [limit] }),
  )
  const { api, counters, explain } = await createWorld(t, noOtherProcess, { snapshot })
  const { id: keyId } = await api.createKey('alice', { expiresIn: '5h' })
  const daily = snapshot.subscriptions.get('basic')?.limits.get('llm/small')?.[1]
  if (daily === undefined) throw new Error('no limit')
  const changesAt = async () => (await explain('alice', { keyId, model: 'small' })).changesAt
  const after = (hours: number) =>
    new Date(api.now + hours * 3_600_000).toISOString().replace('.000', '')
  const raise = async (to: number, hours: number) => {
    const named = { subscription: 'basic', name: 'daily', user: 'alice', reason: 'a test' }
    const body = { ...named, limit: to, until: after(hours) }
    t.equal((await api.ask('POST /v1/admin/increases', { as: 'admin', body })).statusCode, 200)
  }
  await raise(300, 1)
  await raise(200, 2)
  t.equal(await changesAt(), after(5), 'the limit itself suffices')
  counters.add([counterOf(daily, 'alice')], 150, api.now)
  t.equal(await changesAt(), after(2), 'the second increase suffices')
  counters.add([counterOf(daily, 'alice')], 100, api.now)
  t.equal(await changesAt(), after(1))
  await raise(400, 7)
  t.equal(await changesAt(), after(5), 'the key expires first')
  counters.add([counterOf(daily, 'alice')], 200, api.now)
  t.match(await explain('alice', { keyId, model: 'small' }), { allowed: false, status: 429 })
  t.equal(await changesAt(), undefined, 'the key expires before the day ends')
})

test('a budget that resets soon has the code of the refusal, that of tokens', async (t) => {
  const budget = { name: 'budget', of: 'cost', limit: '1', window: '30s' }
  const snapshot = snapshotOf(
    modelRef('small'),
    accessPolicy('open', ['llm/small'], teams),
    subscription(
      'basic',
      teams,
      { 'llm/small': [[100, '1m']] },
      { named: [budget], ofModels: { billingRate: { perToken: '1' } } },
    ),
  )
  const { api, counters, explain } = await createWorld(t, noOtherProcess, { snapshot })
  const { id: keyId } = await api.createKey('alice')
  const [, limit] = snapshot.subscriptions.get('basic')?.limits.get('llm/small') ?? []
  counters.add([counterOf(limit as CountedLimit, 'alice')], 1_000_000_000, api.now)
  t.match(await explain('alice', { keyId, model: 'llm/small' }), {
    ...{ allowed: false, status: 429, code: 'rate_limit_exceeded' },
    message: /budget "budget".*Please try again in \d+s/,
  })
})

test('the limit that refuses is marked, and whose it is named', async (t) => {
  const each = { limit: 10, window: '1m' }
  const world = snapshotOf(
    modelRef('small', { limits: [{ ...each, name: 'capacity', per: 'model' }] }),
    accessPolicy('open', ['llm/small'], teams),
    subscription('basic', teams, { 'llm/small': [[100, '1m']] }),
    {
      ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant' },
      metadata: { name: 'default-tenant' },
      spec: { limits: [{ ...each, name: 'all', per: 'installation' }] },
    },
  )
  for (const [spent, resource] of [
    ['capacity', { kind: 'ModelRef', namespace: 'llm', name: 'small' }],
    ['all', { kind: 'Tenant', name: 'default-tenant' }],
    ['own', { kind: 'APIKey' }],
    [undefined, { kind: 'Subscription', name: 'basic' }],
  ] as const) {
    const { api, counters, explain } = await createWorld(t, noOtherProcess, { snapshot: world })
    const { id } = await api.createKey('alice', { limits: [{ ...each, name: 'own' }] })
    const asked = { keyId: id, model: 'llm/small' }
    const before = await explain('alice', asked)
    t.notOk(before.limits.some(({ refuses }: { refuses?: boolean }) => refuses))
    const [whole] = [...(world.subscriptions.get('basic')?.limits.get('llm/small') ?? [])]
      .concat(
        compileCaps((await api.keys.findById(id)) as ApiKeyRecord)?.limitsOn?.('llm/small', {})
          .limits ?? [],
      )
      .filter(({ limitName }) => limitName === spent)
    if (whole === undefined) throw new Error('no limit')
    counters.add([counterOf(whole, 'alice')], 100, api.now)
    for (const as of ['alice', 'admin']) {
      const { steps, limits } = await explain(as, asked)
      const refusing = limits.filter(({ refuses }: { refuses?: boolean }) => refuses)
      t.match(refusing, [{ name: spent ?? null, percentLeft: 0 }])
      t.equal(refusing.length, 1)
      const { resource: shown } = steps.at(-1)
      t.match(shown, { ...resource, ...(spent === 'own' && { name: id }) })
      const isWritten = as === 'admin' && spent !== 'own'
      t.equal(shown.line, isWritten ? 1 : undefined)
    }
  }
})

test('under a limit on cost: what is not counted, and a model without a price', async (t) => {
  const { api, explain } = await createWorld(t, noOtherProcess, {
    snapshot: shared,
    problems: ['a.yaml:3: warning: ModelRef other: x'],
  })
  const { id: keyId } = await api.createKey('alice')
  const uncounted = await explain('alice', { keyId, path: '/llm/small/v1/audio/speech' })
  t.match(uncounted, { allowed: false, status: 403, code: 'path_closed' })
  t.match(uncounted.steps.at(-1), { step: 'budget', passed: false, resource: { name: 'basic' } })
  t.match(uncounted.subscriptions, [{ name: 'basic', pays: true }])
  const asked = { keyId, model: 'llm/free' }
  const unpriced = await explain('admin', asked)
  t.match(unpriced, { allowed: false, status: 403, code: 'subscription_not_allowed' })
  t.match(
    unpriced.reason,
    /model_unhealthy; not in force: Subscription basic: spec\.modelRefs\[1\] needs a billingRate/,
  )
  t.equal((await explain('alice', asked)).reason, undefined)
})

test('what requests hold and take is neither ended nor asked about a later time', async (t) => {
  const world = snapshotOf(
    modelRef('small'),
    accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
    subscription(
      'basic',
      { groups: ['team-a'] },
      { 'llm/small': [[100, '1m']] },
      { admission: { mode: 'reserve' }, ofModels: { concurrency: 1 } },
    ),
  )
  const counters = createTestCounters()
  const holds = createMemoryHolds(counters.windows)
  const api = await createKeyApi(t, {
    snapshot: world,
    readCounters: withOpenRequests(counters.readFresh, holds),
    limits: createLimitEnforcer({
      counters,
      holding: { holds, estimators: createEstimators(), onLoss: 'allow', isDry: true },
    }),
  })
  const [tokens, open] = world.subscriptions.get('basic')?.limits.get('llm/small') ?? []
  if (tokens === undefined || open === undefined) throw new Error('no limits')
  counters.add([counterOf(tokens, 'bob')], 30, api.now)
  const sizes = { floor: 9, beyondRoom: 9, isSeveral: false, least: 1, worst: 9 }
  const expected = { input: 1, inputVariance: 0, output: 9, outputVariance: 0, ...sizes }
  const asked = { ...emptyHold, expected, canLimitOutput: true, charge: 'admission' } as const
  for (const user of ['alice', 'bob']) {
    const [own, requestCounters] = [[counterOf(tokens, user)], [counterOf(open, user)]]
    await holds.hold({ ...asked, id: user, counters: own, requestCounters }, api.now)
  }
  const explain = async (at?: string) =>
    (await api.ask(route, { as: 'alice', body: { model: 'small', ...(at && { at }) } })).json()
  t.match(await explain(), { allowed: false, code: 'concurrency_limit_exceeded' })
  for (const at of [endsAt, '2026-03-01T13:00:00Z', '2027-03-01T00:00:00Z']) {
    t.match(await explain(at), { allowed: true, limits: [{ used: 0 }, { used: 0 }] })
  }
  t.equal(holds.size, 2)
  t.match(counters.read([counterOf(tokens, 'bob')], api.now), [{ used: 30 }])
  t.match(await explain(), { allowed: false, code: 'concurrency_limit_exceeded' })
})

test('a key that has ended, or will have at that time', async (t) => {
  const { api, explain } = await createWorld(t)
  const { id } = await api.createKey('alice', { expiresIn: '1d' })
  const asked = { keyId: id, model: 'small' }
  t.match(await explain('alice', { ...asked, at: '2026-03-03T00:00:00Z' }), {
    ...{ allowed: false, status: 401, code: 'credential_invalid' },
    message: 'The API key expired at 2026-03-02T12:00:00Z.',
    steps: [{ step: 'credential', passed: false }],
  })
  await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
  t.match(await explain('alice', asked), { message: /^The API key was revoked at / })
})

test('a user sees unknown and forbidden models, and foreign subscriptions, as one', async (t) => {
  const { explain } = await createWorld(t)
  const without = ({ message, ...rest }: { message: string }) => rest
  const forbidden = await explain('alice', { model: 'llm/secret' })
  const unknown = await explain('alice', { model: 'llm/nothing' })
  t.match(forbidden, { allowed: false, status: 403, code: 'model_not_allowed' })
  t.strictSame(without(forbidden), without(unknown))
  t.strictSame(forbidden.steps.at(-1), { step: 'model', passed: false })
  t.equal(
    forbidden.message.replaceAll('llm/secret', 'x'),
    unknown.message.replaceAll('llm/nothing', 'x'),
  )
  const foreign = await explain('alice', { model: 'small', subscription: 'b-only' })
  const missing = await explain('alice', { model: 'small', subscription: 'nothing' })
  t.match(foreign.subscriptions, [
    { kind: 'Subscription', name: 'b-only', pays: false, passedOver: 'access_denied' },
    { name: 'basic', pays: false, passedOver: 'not_named' },
  ])
  t.strictSame(
    JSON.parse(JSON.stringify(foreign).replaceAll('b-only', 'nothing')).subscriptions.reverse(),
    missing.subscriptions,
  )
  const spelled = async (name: string) => {
    const subscription = `models-as-a-service/${name}`
    const { subscriptions } = await explain('alice', { model: 'small', subscription })
    return JSON.stringify(subscriptions).replaceAll(name, 'x')
  }
  t.equal(await spelled('b-only'), await spelled('b-nope'), 'with the namespace too')
})

test('an administrator sees anybody, all policies, with file, line and reason', async (t) => {
  const { api, explain } = await createWorld(t)
  const { id } = await api.createKey('alice')
  const answer = await explain('admin', { keyId: id, model: 'llm/secret' })
  t.match(answer, {
    allowed: false,
    user: 'alice',
    model: 'llm/secret',
    reason: 'no AccessPolicy opens the model to the caller',
    policies: [
      { kind: 'AccessPolicy', name: 'other-team', opens: false, file: /other-team/, line: 1 },
    ],
  })
  t.match(answer.steps.at(-1), { step: 'access', passed: false })
  t.match(await explain('admin', { user: 'bob', groups: ['team-b'], model: 'llm/secret' }), {
    allowed: true,
    user: 'bob',
    subscriptions: [{ name: 'b-only', pays: true, file: /b-only/ }],
  })
  t.match(await explain('admin', { model: 'llm/nothing' }), { reason: 'no such model' })
  const user = 'u'.repeat(2_048)
  const longest = await explain('admin', { user, groups: ['team-b'], model: 'llm/secret' })
  t.match(longest, { allowed: true, user }, 'a name as long as that of an owner of keys')
  t.match(api.audited, [
    { action: 'key.create' },
    { action: 'key.create' },
    { action: 'key.explain', target: { keyId: id, user: 'alice' } },
    { action: 'key.explain', target: { user: 'bob' } },
    { action: 'key.explain', target: { user } },
  ])
})

test('a bare name of models that the caller may not use names them and their policies', async (t) => {
  const { explain } = await createWorld(t)
  const asked = { user: 'alice', groups: ['team-a'], model: 'secret' }
  const answer = await explain('admin', asked)
  t.match(answer, {
    ...{ allowed: false, code: 'model_not_allowed', model: 'llm/secret' },
    reason: 'no AccessPolicy opens the model to the caller: llm/secret is named by other-team',
    policies: [{ kind: 'AccessPolicy', name: 'other-team', opens: false }],
  })
  t.match(answer.steps.at(-1), { step: 'access', passed: false })
  t.match(answer.steps.at(-2), { step: 'model', passed: true, resource: { name: 'secret' } })
  const without = ({ message, ...rest }: { message: string }) => rest
  const [own, unknown] = [
    await explain('alice', { model: 'secret' }),
    await explain('alice', { model: 'nothing' }),
  ]
  t.strictSame(without(own), without(unknown), 'the caller learns nothing of it')
})

test('somebody who is named asks with the newest regular key, else with a new one', async (t) => {
  const two = snapshotOf(
    modelRef('small'),
    accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
    subscription('cheap', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] }),
    subscription('dear', { groups: ['team-a'] }, { 'llm/small': [[900, '1m']] }, { priority: 5 }),
  )
  const api = await createKeyApi(t, { snapshot: two })
  const asked = { user: 'alice', groups: ['team-a'], model: 'small' }
  const ask = async (as = 'admin', more = {}) =>
    (await api.ask(route, { as, body: { ...asked, ...more } })).json()
  t.match(await ask(), { allowed: true, askedAs: { key: 'new', subscription: 'dear' } })
  const { id } = await api.createKey('alice', { name: 'daily', subscription: 'cheap' })
  api.now += 1_000
  const gone = await api.createKey('alice', { subscription: 'dear' })
  await api.ask(`DELETE /v1/api-keys/${gone.id}`, { as: 'alice' })
  await api.createKey('alice', { subscription: 'dear', ephemeral: true })
  const expected = { key: 'newest', keyId: id, name: 'daily', subscription: 'cheap' }
  for (const as of ['admin', 'alice']) {
    t.match(await ask(as), {
      allowed: true,
      keyId: id,
      askedAs: expected,
      limits: [{ limit: 100 }],
    })
  }
  t.match(api.audited.at(-1), { action: 'key.explain' })
  const named = await ask('admin', { subscription: 'dear' })
  t.match(named, { allowed: true, limits: [{ limit: 900 }] })
  t.notOk(named.askedAs, 'with a subscription it is the person')
  t.match(await ask('admin', { user: 'zed', groups: [] }), { allowed: false })
})

test('a misspelt limit that closes the model is named', async (t) => {
  const limit = { name: 'daily', limit: 5, window: 'day' }
  const { api, explain } = await createWorld(t, noOtherProcess, {
    snapshot: snapshotOf(
      ...[modelRef('small'), modelRef('large')],
      accessPolicy('open', ['llm/small', 'llm/large'], teams),
      subscription(
        'basic',
        teams,
        { 'llm/small': [[9, '1m']], 'llm/large': [[9, '1m']] },
        {
          named: [{ ...limit, enforced: true, models: [{ namespace: 'llm', name: 'small' }] }],
        },
      ),
    ),
    problems: ['a.yaml:3: warning: ModelRef other: x'],
  })
  const { id: keyId } = await api.createKey('alice')
  t.match(
    (await explain('admin', { keyId, model: 'llm/small' })).reason,
    /spec\.limits\[0\]\.enforced /,
  )
  t.match(await explain('admin', { keyId, model: 'llm/large' }), { allowed: true })
})

test('other keys with which the response would be another one are named', async (t) => {
  const two = snapshotOf(
    ...[modelRef('small'), modelRef('large')],
    accessPolicy('open', ['llm/small', 'llm/large'], { groups: ['team-a'] }),
    subscription(
      'both',
      { groups: ['team-a'] },
      { 'llm/small': [[9, '1m']], 'llm/large': [[9, '1m']] },
    ),
    subscription('one', { groups: ['team-a'] }, { 'llm/small': [[9, '1m']] }),
  )
  const api = await createKeyApi(t, { snapshot: two })
  const asked = async (model: string) =>
    (
      await api.ask(route, { as: 'admin', body: { user: 'alice', groups: ['team-a'], model } })
    ).json()
  const { id: keyId } = await api.createKey('alice', { name: 'batch', subscription: 'both' })
  api.now += 1_000
  await api.createKey('alice', { name: 'daily', subscription: 'one' })
  const otherwise = [{ keyId, name: 'batch', subscription: 'both', allowed: true }]
  t.match(await asked('large'), { allowed: false, askedAs: { name: 'daily', otherwise } })
  t.notOk((await asked('small')).askedAs.otherwise, 'all are allowed')
})

test('an identity token asks with a key where a key is required', async (t) => {
  const two = [
    modelRef('small'),
    accessPolicy('open', ['llm/small'], { groups: ['team-a', 'tollgate-admins'] }),
    subscription('cheap', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] }),
    subscription('dear', { groups: ['team-a'] }, { 'llm/small': [[900, '1m']] }, { priority: 5 }),
  ]
  const pastRefusals = createRefusalMemory()
  const api = await createKeyApi(t, { snapshot: snapshotOf(...two), pastRefusals })
  const ask = async (more = {}, by = api) =>
    (await by.ask(route, { as: 'alice', body: { model: 'small', ...more } })).json()
  t.match(await ask(), { allowed: true, askedAs: { key: 'new', subscription: 'dear' } })
  const cheap = await api.createKey('alice', { subscription: 'cheap' })
  api.now += 1_000
  const dear = await api.createKey('alice', { subscription: 'dear' })
  t.match(await ask(), { allowed: true, askedAs: { key: 'newest', keyId: dear.id } })
  for (const written of ['cheap', 'models-as-a-service/cheap']) {
    t.match(await ask({ subscription: written }), {
      ...{ allowed: true, askedAs: { key: 'newest', keyId: cheap.id } },
      limits: [{ limit: 100 }],
    })
  }
  const listing = await ask({ path: '/llm/small/v1/models', method: 'GET', model: null })
  t.match(listing, { allowed: false, code: 'subscription_not_allowed' })
  t.notOk(listing.askedAs, 'a token may list')

  pastRefusals.note({
    ...{ code: 'credential_invalid', traceparent: undefined, subscription: undefined },
    denial: { allowed: false, code: 'credential_invalid', detail: { about: 'identity_token' } },
    ...{ now: api.now, status: 401, reason: undefined, model: 'small', bodyModel: 'small' },
    ...{ method: 'POST', path: '/v1/chat/completions' },
    caller: { by: 'token', proof: { by: 'file' }, user: 'alice', groups: ['team-a'] },
    source: () => undefined,
    requestId: 'by-token',
  })
  const again = await api.ask(route, { as: 'alice', body: { requestId: 'by-token' } })
  t.match(again.json(), {
    ...{ allowed: false, status: 401, refusal: { status: 401 } },
    steps: [{ step: 'credential', passed: false }],
  })

  const open = await createKeyApi(t, { snapshot: snapshotOf(...two), tokensOpenInference: true })
  await open.createKey('alice', { subscription: 'dear' })
  const asToken = await ask({}, open)
  t.match(asToken, { allowed: false, message: /^Several of your subscriptions/ })
  t.notOk(asToken.askedAs)
})

test('what is not in force is named to administrators, with its place', async (t) => {
  const broken = (line: number, name: string) => `access.yaml:${line}: error: ${name}: spec is bad`
  const refusedOnes = [
    ...(['gold', 'silver'] as const).map((name) => ({
      ...{
        kind: 'Subscription' as const,
        name,
        modelKeys: [`llm/${name === 'gold' ? 'small' : 'other'}`],
      },
      message: 'spec is bad',
    })),
    {
      kind: 'AccessPolicy' as const,
      name: 'all',
      modelKeys: ['llm/secret'],
      message: 'spec is bad',
    },
  ]
  const problems = [
    broken(18, 'Subscription gold'),
    broken(28, 'Subscription silver'),
    broken(38, 'MaaSAuthPolicy all'),
    broken(48, 'ModelRef gone'),
    'access.yaml:58: warning: Subscription gold: spec.x is not known here',
  ]
  const api = await createKeyApi(t, {
    snapshot: snapshotOf(
      ...[modelRef('small'), modelRef('secret')],
      accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
      subscription('b-only', { groups: ['team-b'] }, { 'llm/secret': [[50, '1m']] }),
    ),
    ...{ problems, refused: refusedOnes },
  })
  const person = { user: 'zed', groups: ['team-a'] }
  const ask = async (as: string, body: object) => (await api.ask(route, { as, body })).json()
  for (const [body, line] of [
    [{ ...person, model: 'small' }, 18],
    [{ ...person, model: 'small', subscription: 'silver' }, 28],
    [{ ...person, model: 'llm/secret' }, 38],
    [{ ...person, model: 'llm/gone' }, 48],
    [{ ...person, model: 'gone' }, 48],
  ] as const) {
    const { reason } = await ask('admin', body)
    t.match(reason, new RegExp(`; not in force: access.yaml:${line}: error: [^;,]+$`))
  }
  t.notMatch(JSON.stringify(await ask('alice', { model: 'small' })), /access\.yaml|gold/)
})

test('a name that the server does not list is said, unless it is replaced or taken anyway', async (t) => {
  const open = ['small', 'named', 'other'].map((name) => `llm/${name}`)
  const written = snapshotOf(
    ...[modelRef('small'), modelRef('named', { upstreamModel: 'x' }), modelRef('other')],
    accessPolicy('open', open, { groups: ['team-a'] }),
    subscription(
      'basic',
      { groups: ['team-a'] },
      Object.fromEntries(open.map((key) => [key, [[9, '1m']]])),
    ),
  )
  const listed = ['a', 'b', 'c', 'd', 'e', 'f']
  const servedNames = {
    ...written.servedNames,
    listOf: ({ key }: { key: string }) => (key === 'llm/other' ? undefined : listed),
  }
  let isLlamaCpp = false
  const api = await createKeyApi(t, {
    snapshot: { ...written, servedNames: { ...servedNames, isLlamaCpp: () => isLlamaCpp } },
  })
  const ask = async (body: object) =>
    (await api.ask(route, { as: 'alice', body })).json().unlistedName
  const expected = { sent: 'small', listed: listed.slice(0, 5) }
  t.strictSame(await ask({ model: 'small' }), expected)
  t.strictSame(await ask({ model: 'llm/small' }), expected)
  for (const model of ['named', 'other', 'llm/named', 'publishers/llm/models/small']) {
    t.equal(await ask({ model }), undefined, model)
  }
  t.equal(await ask({ path: '/llm/small/v1/models', method: 'GET' }), undefined)
  isLlamaCpp = true
  t.equal(await ask({ model: 'small' }), undefined)
})

test('a model whose server fails says so; only administrators see the details', async (t) => {
  const failure = { reason: 'refused', detail: 'delayed connect error: 111' } as const
  const api = await createKeyApi(t, {
    snapshot,
    backendOf: (model) => (model === 'llm/small' ? { failure } : undefined),
  })
  const ask = async (as: string, model: string) =>
    (await api.ask(route, { as, body: { model } })).json().backend
  t.strictSame(await ask('admin', 'small'), { reachable: false, ...failure })
  t.strictSame(await ask('alice', 'small'), { reachable: false, reason: 'refused' })
  t.equal(await ask('admin', 'secret'), undefined)
  t.equal(await ask('bob', 'nothing'), undefined)
})

test("others' keys, users and refusals are refused to users", async (t) => {
  const { api, pastRefusals, explain } = await createWorld(t)
  const { id } = await api.createKey('bob')
  const ask = (body: object, as = 'alice') => api.ask(route, { as, body })
  const noKey = await ask({ keyId: id, model: 'small' })
  refused(t, noKey, 404, 'not_found')
  const unknown = '00000000-0000-4000-8000-000000000000'
  t.equal((await ask({ keyId: unknown, model: 'small' })).body, noKey.body)
  refused(t, await ask({ user: 'bob', groups: [], model: 'small' }), 403, 'admin_required')
  const inOther = { user: 'alice', groups: ['team-a', 'team-b'], model: 'llm/secret' }
  refused(t, await ask(inOther), 403, 'admin_required', 'nor what one could with other groups')
  t.match(await explain('alice', { ...inOther, groups: ['team-a'], model: 'small' }), {
    allowed: true,
  })
  pastRefusals.note({
    ...{ code: 'model_not_allowed', denial: { allowed: false, code: 'model_not_allowed' } },
    ...{ now: api.now, status: 403, reason: 'no such model', model: 'x', traceparent: undefined },
    ...{ method: 'POST', path: '/v1/chat/completions', bodyModel: 'x', subscription: undefined },
    caller: { by: 'key', user: 'bob', groups: ['team-b'], keyId: id, subscription: 'b-only' },
    source: () => undefined,
    requestId: 'of-bob',
  })
  refused(t, await ask({ requestId: 'of-bob' }), 404, 'not_found')
  refused(t, await ask({ requestId: 'of-nobody' }), 404, 'not_found')
  const own = await explain('bob', { requestId: 'of-bob' })
  t.match(own, { allowed: false, refusal: { status: 403, model: 'x', keyId: id } })
  t.notOk(own.refusal.reason)
  t.match(await explain('admin', { requestId: 'of-bob' }), {
    refusal: { user: 'bob', reason: 'no such model' },
  })
  await api.sql`delete from api_keys where id = ${id}`
  t.match(await explain('bob', { requestId: 'of-bob' }), {
    ...{ allowed: false, status: 401, message: 'The API key does not exist any more.' },
    ...{ steps: [{ step: 'credential', passed: false }], refusal: { status: 403 } },
  })
})

test('a refusal of another process is explained, or may be unknown for lack of its answer', async (t) => {
  const other = createRefusalMemory()
  let silent: readonly string[] | undefined = []
  const othersRefusals: PeerRefusals = {
    recent: async () => ({ refusals: [], silent }),
    find: async (requestId, user) => {
      const found = other.find(requestId, user, api.now)
      return { refusals: found === undefined ? [] : [found], silent }
    },
  }
  const { api, explain } = await createWorld(t, othersRefusals)
  const { id } = await api.createKey('bob')
  other.note({
    ...{ code: 'model_not_allowed', denial: { allowed: false, code: 'model_not_allowed' } },
    ...{ now: api.now, status: 403, reason: undefined, model: 'x', traceparent: undefined },
    ...{ method: 'POST', path: '/v1/chat/completions', bodyModel: 'x', subscription: undefined },
    caller: { by: 'key', user: 'bob', groups: ['team-b'], keyId: id, subscription: 'b-only' },
    source: () => undefined,
    requestId: 'of-bob',
  })
  for (const who of ['bob', 'admin']) {
    t.match(await explain(who, { requestId: 'of-bob' }), { refusal: { status: 403, keyId: id } })
  }
  const ask = (requestId: string) => api.ask(route, { as: 'alice', body: { requestId } })
  const foreign = await ask('of-bob')
  refused(t, foreign, 404, 'not_found')
  t.notMatch(foreign.body, /ask again/)
  for (const each of [['replica-3'], undefined]) {
    silent = each
    const unknown = await ask('of-nobody')
    refused(t, unknown, 404, 'not_found')
    t.match(unknown.json().error.message, /Not every process .* has answered/)
    t.notMatch(unknown.body, /replica-3/)
  }
})

test('a bad question is refused with the name of the field', async (t) => {
  const { api } = await createWorld(t)
  const year = '2028-01-01T00:00:00Z'
  for (const [body, about] of [
    [{}, /model or the path/],
    [{ requestId: 'x', model: 'small' }, /requestId/],
    [{ keyId: 'x', user: 'bob', groups: [], model: 'small' }, /keyId/],
    [{ user: 'bob', model: 'small' }, /groups/],
    [{ groups: ['a'], model: 'small' }, /user/],
    [{ path: 'llm/small' }, /path/],
    [{ model: 'small', at: 'tomorrow' }, /at /],
    [{ model: 'small', at: '2026-03-01T11:00:00Z' }, /at /],
    [{ model: 'small', at: year }, /at /],
    [{ model: 'small\0' }, /model/],
    [{ model: 5 }, /model/],
    [{ model: 'small', address: 'laptop' }, /^address must be an IP address/],
    [{ model: 'small', address: '192.0.2.0/24' }, /address/],
    [{ model: 'small', modl: 'x' }, /modl/],
  ] as const satisfies readonly (readonly [NonNullable<Asked['body']>, RegExp])[]) {
    const answer = await api.ask(route, { as: 'admin', body })
    refused(t, answer, 400, 'invalid_request', JSON.stringify(body))
    t.match(answer.json().error.message, about)
  }
  refused(t, await api.ask(route, { body: { model: 'small' } }), 401)
})
