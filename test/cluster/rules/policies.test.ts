import { test } from 'tap'
import { noPolicies, policiesInSteps } from '../../../src/cluster/rules/policies.ts'
import { toRefusedResource } from '../../../src/models/rules/refused-resources.ts'
import { compile, policiesOf } from '../../support/compile.ts'
import { accessPolicy, modelRef, resourceOf, subscription } from '../../support/documents.ts'

const team = { users: ['ada'], groups: ['team', 'others'] }
const written = [
  modelRef('small'),
  modelRef('large'),
  modelRef('unnamed'),
  accessPolicy('open', ['llm/small', 'llm/gone'], team),
  accessPolicy('also', ['llm/small', 'llm/small'], { users: ['bob'] }),
  subscription('cheap', team, { 'llm/small': [[10, '1m']], 'llm/large': [[5, '1h']] }),
  subscription('dear', team, {
    'llm/small': [
      [100, '1m'],
      [1_000, '1h'],
    ],
  }),
].map(resourceOf)
const { byModel } = policiesOf(compile(written))
const small = byModel.get('llm/small')

test('policies count the resources that name a model', async (t) => {
  t.strictSame([...byModel.keys()], ['llm/small', 'llm/large', 'llm/unnamed'])
  t.match(byModel.get('llm/unnamed'), { access: undefined, limits: undefined, isServed: true })
  t.match(small?.access, { names: ['also', 'open'], count: 2, users: 2, groups: 2, refusals: [] })
  t.match(small?.limits, { names: ['cheap', 'dear'], count: 2, limits: 3, refusals: [] })
  t.equal(byModel.get('llm/large')?.access, undefined)
  t.match(small?.access?.digest, /^[0-9a-f]{32}$/)
})

test('the same content has the same digest in any order', async (t) => {
  const other = policiesOf(compile(written.toReversed())).byModel.get('llm/small')
  t.equal(other?.access?.digest, small?.access?.digest)
  t.equal(other?.limits?.digest, small?.limits?.digest)
  t.equal(other?.server, small?.server)
})

test('a digest depends only on what concerns its model', async (t) => {
  const changedBy = (...documents: readonly object[]) => {
    const fresh = documents.map(resourceOf)
    const names = new Set(fresh.map(({ metadata }) => metadata.name))
    const rest = written.filter(({ metadata }) => !names.has(metadata.name))
    const after = policiesOf(compile([...rest, ...fresh])).byModel
    return ['llm/small', 'llm/large'].flatMap((model) => {
      const [was, is] = [byModel.get(model), after.get(model)]
      return [
        ...(was?.access?.digest === is?.access?.digest ? [] : [`${model} access`]),
        ...(was?.limits?.digest === is?.limits?.digest ? [] : [`${model} limits`]),
        ...(was?.server === is?.server ? [] : [`${model} server`]),
      ]
    })
  }
  const cheap = (large: number, more = {}) =>
    subscription('cheap', team, { 'llm/small': [[10, '1m']], 'llm/large': [[large, '1h']] }, more)
  t.strictSame(changedBy(cheap(5)), [])
  t.strictSame(changedBy(cheap(6)), ['llm/large limits'])
  const models = [{ namespace: 'llm', name: 'large' }]
  const limited = (change: object, { calendar = {}, weights = {} } = {}) => {
    const document = cheap(5)
    const limit = { name: 'a', per: 'group', limit: 5, window: 'day', models, ...change }
    const [first, second] = document.spec.modelRefs as readonly object[]
    const modelRefs = [first, { ...second, weights }]
    return resourceOf({
      ...document,
      spec: { ...document.spec, limits: [limit], calendar, modelRefs },
    })
  }
  const digests = [
    limited({}),
    limited({ limit: 6 }),
    limited({ name: 'b' }),
    limited({ per: 'user' }),
    limited({ enforce: false }),
    limited({ enforce: false, limit: 6 }),
    limited({}, { calendar: { timeZone: 'Asia/Tokyo' } }),
    limited({}, { weights: { output: 2 } }),
  ].map((fresh) => {
    const found = policiesOf(compile([...written.slice(0, 5), fresh, ...written.slice(6)])).byModel
    t.equal(found.get('llm/small')?.limits?.digest, small?.limits?.digest)
    return found.get('llm/large')?.limits?.digest
  })
  t.equal(new Set(digests).size, digests.length, 'whatever a budget depends on is in it')
  t.strictSame(changedBy(cheap(5, { priority: 1 })), ['llm/small limits', 'llm/large limits'])
  t.strictSame(changedBy(cheap(5, { deleting: true })), ['llm/small limits', 'llm/large limits'])
  t.strictSame(changedBy(accessPolicy('also', ['llm/small'], { users: ['eve'] })), [
    'llm/small access',
  ])
  t.strictSame(changedBy(modelRef('small', { backendUrl: 'http://elsewhere' })), [
    'llm/small server',
  ])
})

test('a digest depends on whatever decides requests', async (t) => {
  const digests = (changed: object) => {
    const fresh = resourceOf(changed)
    const rest = written.filter(({ metadata }) => metadata.name !== fresh.metadata.name)
    const { server, limits } = policiesOf(compile([...rest, fresh])).byModel.get('llm/small') ?? {}
    return { server, limits: limits?.digest }
  }
  const of = (more: Parameters<typeof subscription>[3] = {}) =>
    subscription('cheap', team, { 'llm/small': [[10, '1m']], 'llm/large': [[5, '1h']] }, more)
  const plain = digests(of())
  for (const more of [
    { admission: { mode: 'reserve' } },
    { admission: { mode: 'reserve', charge: 'end' } },
    { spec: { notify: { at: [50] } } },
    { ofModels: { billingRate: { perToken: '0.000002' } } },
    { ofModels: { billingRate: { perToken: '0.000002', perOutputToken: '0.000008' } } },
  ]) {
    t.not(digests(of(more)).limits, plain.limits, JSON.stringify(more))
  }
  for (const more of [{ state: 'shared' }, { modelFields: ['models'] }]) {
    t.not(digests(modelRef('small', more)).server, plain.server, JSON.stringify(more))
  }
})

test('a digest does not depend on ADMISSION_MODE, which the controller need not have', async (t) => {
  const limit = { name: 'month', limit: 9_000, window: 'month' }
  const resources = [
    ...written,
    resourceOf(subscription('budget', team, { 'llm/large': [[5, '1h']] }, { named: [limit] })),
  ]
  const limitsOf = (mode: 'count' | 'reserve') =>
    policiesOf(compile(resources, undefined, mode)).byModel.get('llm/large')?.limits?.digest
  t.equal(limitsOf('reserve'), limitsOf('count'))
})

test('what has not changed is the same object again', async (t) => {
  const steps = (
    resources: typeof written,
    before = noPolicies,
    from?: ReturnType<typeof compile>,
  ) => {
    const snapshot = compile(resources, from)
    const all = policiesInSteps(snapshot, [], before)
    for (;;) {
      const step = all.next()
      if (step.done) return { policies: step.value, snapshot }
    }
  }
  const first = steps(written)
  const again = steps([...written], first.policies, first.snapshot)
  t.equal(again.policies.byModel, first.policies.byModel)
  const dear = resourceOf(subscription('dear', team, { 'llm/small': [[7, '1m']] }))
  const next = steps([...written.slice(0, -1), dear], first.policies, first.snapshot).policies
  t.equal(next.byModel.get('llm/large'), first.policies.byModel.get('llm/large'))
  t.not(next.byModel.get('llm/small'), first.policies.byModel.get('llm/small'))
  const unnamed = written.filter(({ metadata }) => metadata.name !== 'unnamed')
  const fewer = steps(unnamed, first.policies, first.snapshot).policies
  t.notOk(fewer.byModel.has('llm/unnamed'), 'a model that no resource names is removed')
  const without = steps(written.slice(1), first.policies, first.snapshot).policies
  t.equal(without.byModel.get('llm/small'), undefined)
})

test('at most a hundred names are kept', async (t) => {
  const many = Array.from({ length: 250 }, (_, i) => `s${String((i * 77) % 250).padStart(3, '0')}`)
  const resources = [
    modelRef('small'),
    ...many.map((name) => subscription(name, team, { 'llm/small': [[1, '1m']] })),
  ].map(resourceOf)
  const limits = policiesOf(compile(resources)).byModel.get('llm/small')?.limits
  t.equal(limits?.count, 250)
  t.strictSame(limits?.names, many.toSorted().slice(0, 100))
})

test('a refused resource is reported at the models that it names', async (t) => {
  const refused = toRefusedResource(
    {
      kind: 'MaaSSubscription',
      metadata: { name: 'broken' },
      spec: {
        modelRefs: [
          { namespace: 'llm', name: 'unnamed' },
          { name: 'x' },
          null,
          { namespace: 1, name: 2 },
        ],
      },
    },
    'spec.modelRefs[0].tokenRateLimits[0].window must be shorter',
  )
  t.match(refused, { kind: 'Subscription', name: 'broken', modelKeys: ['llm/unnamed'] })
  const unnamed = policiesOf(compile(written), refused ? [refused] : []).byModel.get('llm/unnamed')
  t.match(unnamed?.limits, {
    count: 0,
    names: [],
    refusals: [/^Subscription broken is not in force: spec.modelRefs.*must be shorter$/],
  })
  t.equal(unnamed?.access, undefined)
})

test('a refused document that names no models is not reported', async (t) => {
  const body = { metadata: { name: 'a' }, spec: { modelRefs: [] } }
  for (const document of [
    null,
    'text',
    { ...body, kind: 'ModelRef' },
    { ...body, kind: 'constructor' },
    { ...body, kind: 'Subscription', metadata: null },
    { ...body, kind: 'Subscription', metadata: { name: 7 } },
    { ...body, kind: 'Subscription', spec: { modelRefs: {} } },
  ]) {
    t.equal(toRefusedResource(document, ''), undefined)
  }
})
