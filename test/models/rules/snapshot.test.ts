import { test } from 'tap'
import { formatPath } from '../../../src/formats/fields.ts'
import type { Resource } from '../../../src/kinds/resources.ts'
import { compileInSteps } from '../../../src/models/rules/compile.ts'
import { resourceKey } from '../../../src/models/rules/snapshot.ts'
import { compile } from '../../support/compile.ts'
import {
  accessPolicy,
  modelRef,
  resourceOf,
  snapshotOf,
  subscription,
} from '../../support/documents.ts'
import { createRandom } from '../../support/random.ts'

test('no resources compile to an empty snapshot', async (t) => {
  const snapshot = compile([])
  t.equal(snapshot.models.size, 0)
  t.equal(snapshot.subscriptions.size, 0)
  t.strictSame(snapshot.problems, [])
})

test('a model has all users and groups of its policies', async (t) => {
  const { models } = snapshotOf(
    modelRef('small'),
    modelRef('large'),
    accessPolicy('one', ['llm/small'], { users: ['ada'], groups: ['a'] }),
    accessPolicy('two', ['llm/large', 'llm/small'], { users: ['bob'], groups: ['a', 'b'] }),
    accessPolicy('other', ['other/small'], { users: ['eve'] }),
  )
  t.strictSame([...(models.get('llm/small')?.users ?? [])].sort(), ['ada', 'bob'])
  t.strictSame([...(models.get('llm/small')?.groups ?? [])].sort(), ['a', 'b'])
  t.strictSame([...(models.get('llm/large')?.users ?? [])], ['bob'])
})

test('a model is Ready once it has a backend', async (t) => {
  const { models } = snapshotOf(
    modelRef('small', { backendUrl: 'http://small:8000/base//' }),
    modelRef('large', { backendUrl: undefined }),
  )
  t.match(models.get('llm/small'), {
    phase: 'Ready',
    cluster: /^model\/llm\/small\/[0-9a-f]{8}$/,
    basePath: '/base',
  })
  t.match(models.get('llm/large'), { phase: 'Pending', cluster: undefined, basePath: '' })
})

test('a name whose connection changes gets another cluster', async (t) => {
  const clusterOf = (spec: object) =>
    snapshotOf(modelRef('small', spec)).models.get('llm/small')?.cluster
  const plain = clusterOf({})
  t.equal(clusterOf({ retries: 3, upstreamModel: 'x' }), plain, 'not a part of the cluster')
  for (const spec of [
    { backendUrl: 'http://other.example:8000' },
    { caFile: 'ca.pem' },
    { credential: { file: 'key' } },
    { timeouts: { connect: '1s' } },
  ]) {
    t.not(clusterOf(spec), plain)
  }
  for (const address of ['http://127.0.0.1:1', 'http://[::1]:1']) {
    t.equal(clusterOf({ backendUrl: address }), 'model/llm/small')
  }
})

test('the names of models are indexed in short steps', async (t) => {
  let reads = 0
  const modelIds = ['shared', 'also shared']
  const refs = Array.from({ length: 3_000 }, (_, i) =>
    Object.defineProperty({ ...resourceOf(modelRef(`m${i}`)) }, 'modelIds', {
      get() {
        reads += 1
        return modelIds
      },
    }),
  )
  const compiling = compileInSteps(refs)
  let [most, steps] = [0, 0]
  for (let step = compiling.next(); !step.done; step = compiling.next()) {
    most = Math.max(most, reads)
    steps += 1
    reads = 0
  }
  t.ok(Math.max(most, reads) < 10, `${Math.max(most, reads)} models in one step`)
  t.ok(steps > 3 * refs.length, 'names that many models share are sorted in steps, too')
})

test('several models may share a name', async (t) => {
  const { modelsByName } = snapshotOf(
    modelRef('small', { modelIds: ['org/Small', 'small', 'org/Small'] }),
    modelRef('small', { modelIds: ['org/Small'] }, 'other'),
    modelRef('large', { modelIds: ['org/Large'] }),
  )
  const keys = (name: string) => modelsByName.get(name)?.map(({ key }) => key)
  t.strictSame(keys('small'), ['llm/small', 'other/small'])
  t.strictSame(keys('org/Small'), ['llm/small', 'other/small'], 'each once')
  t.strictSame(keys('org/Large'), ['llm/large'])
  for (const name of [
    '',
    'llm/small',
    'Small',
    'org/small',
    'constructor',
    '__proto__',
    'small\n',
  ]) {
    t.equal(keys(name), undefined, JSON.stringify(name))
  }
})

test('a subscription covers only models that exist', async (t) => {
  const { subscriptions, problems } = snapshotOf(
    modelRef('small'),
    subscription(
      'team-a',
      { users: ['ada'], groups: ['a'] },
      {
        'llm/small': [
          [100, '1m'],
          [900, '1h'],
        ],
        'llm/gone': [[5_000, '1m']],
      },
      { priority: 7 },
    ),
  )
  const compiled = subscriptions.get('team-a')
  t.match(compiled, { phase: 'Degraded', priority: 7, maxLimit: 5_000 })
  t.strictSame([...(compiled?.limits.keys() ?? [])], ['llm/small'])
  t.match(compiled?.limits.get('llm/small'), [
    { limit: 100, windowMs: 60_000 },
    { limit: 900, windowMs: 3_600_000 },
  ])
  t.strictSame(
    problems.map(({ resource, path, message }) => [resource, formatPath(path), message]),
    [
      [
        'Subscription/models-as-a-service/team-a',
        'spec.modelRefs[1]',
        'names the model llm/gone, which does not exist',
      ],
    ],
  )
})

test('the phase depends on how many references are valid', async (t) => {
  const all = { groups: ['a'] }
  const { policies, subscriptions } = snapshotOf(
    modelRef('small'),
    accessPolicy('active', ['llm/small'], all),
    accessPolicy('degraded', ['llm/gone', 'llm/small'], all),
    accessPolicy('failed', ['llm/gone'], all),
    accessPolicy('twice', ['llm/gone', 'llm/gone'], all),
    subscription('active', all, { 'llm/small': [[1, '1m']] }),
    subscription('degraded', all, { 'llm/small': [[1, '1m']], 'llm/gone': [[1, '1m']] }),
    subscription('failed', all, { 'llm/gone': [[1, '1m']], 'other/small': [[1, '1m']] }),
  )
  t.strictSame(
    [...policies.values()].map(({ resource, phase }) => [resource.metadata.name, phase]),
    [
      ['active', 'Active'],
      ['degraded', 'Degraded'],
      ['failed', 'Failed'],
      ['twice', 'Failed'],
    ],
  )
  t.strictSame(
    [...subscriptions.values()].map(({ name, phase }) => [name, phase]),
    [
      ['active', 'Active'],
      ['degraded', 'Degraded'],
      ['failed', 'Failed'],
    ],
  )
})

test('a negative priority counts as zero', async (t) => {
  const { subscriptions } = snapshotOf(
    modelRef('small'),
    subscription('low', {}, { 'llm/small': [[1, '1m']] }, { priority: -9 }),
  )
  t.equal(subscriptions.get('low')?.priority, 0)
})

test('a resource that is being deleted is not in force', async (t) => {
  const deleting = (document: ReturnType<typeof modelRef>) => ({
    ...document,
    metadata: { ...document.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
  })
  const { models, policies, subscriptions } = snapshotOf(
    modelRef('small'),
    deleting(modelRef('large')),
    deleting(accessPolicy('open', ['llm/small'], { users: ['ada'] })),
    subscription('team-a', {}, { 'llm/small': [[1, '1m']], 'llm/large': [[1, '1m']] }),
  )
  t.strictSame([...models.keys()], ['llm/small'])
  t.equal(models.get('llm/small')?.users.size, 0)
  t.equal(policies.size, 0)
  t.equal(subscriptions.get('team-a')?.phase, 'Degraded')
})

test('the order of resources does not matter', async (t) => {
  const documents = [
    subscription('team-a', { groups: ['a'] }, { 'llm/small': [[1, '1m']] }),
    accessPolicy('open', ['llm/small'], { groups: ['a'] }),
    modelRef('small'),
  ]
  t.strictSame(snapshotOf(...documents).problems, [])
  t.strictSame(
    snapshotOf(...documents).subscriptions.get('team-a')?.phase,
    snapshotOf(...documents.reverse()).subscriptions.get('team-a')?.phase,
  )
})

test('a resource is identified by kind, namespace and name', async (t) => {
  t.equal(resourceKey(resourceOf(modelRef('small'))), 'ModelRef/llm/small')
})

test('the snapshot has the Tenant, if there is one', async (t) => {
  const tenant = {
    apiVersion: 'tollgate.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name: 'default-tenant' },
    spec: { apiKeys: { maxExpirationDays: 7 } },
  }
  t.equal(snapshotOf(tenant).tenant?.maxExpirationDays, 7)
  t.equal(snapshotOf(modelRef('small')).tenant, undefined)
})

test('unchanged parts are reused', async (t) => {
  const limits = { 'llm/small': [[1, '1m']] } as const
  const resources = [
    modelRef('small'),
    modelRef('large'),
    accessPolicy('open', ['llm/small'], { users: ['ada'] }),
    accessPolicy('both', ['llm/small', 'llm/large'], { users: ['bob'] }),
    subscription('team-a', { groups: ['a'] }, limits),
    subscription('team-b', { groups: ['b'] }, { ...limits, 'llm/new': [[1, '1m']] }),
  ].map(resourceOf)
  const before = compile(resources)
  const same = compile([...resources].reverse(), before)
  for (const part of ['models', 'modelsByName', 'policies', 'subscriptions'] as const) {
    t.equal(same[part], before[part], part)
  }
  const shut = compile(
    resources.map((resource) =>
      resource.metadata.name === 'open'
        ? resourceOf(accessPolicy('open', ['llm/small'], { users: ['eve'] }))
        : resource,
    ),
    before,
  )
  t.strictSame([...(shut.models.get('llm/small')?.users ?? [])].sort(), ['bob', 'eve'])
  t.equal(shut.models.get('llm/large'), before.models.get('llm/large'))
  t.equal(shut.policies.get('both'), before.policies.get('both'))
  t.equal(shut.subscriptions, before.subscriptions)

  const more = compile([...resources, resourceOf(modelRef('new'))], before)
  t.equal(more.models.get('llm/small'), before.models.get('llm/small'))
  t.equal(more.subscriptions.get('team-a'), before.subscriptions.get('team-a'))
  t.match(more.subscriptions.get('team-b'), { phase: 'Active' })
  t.strictSame(more.problems, [])
})

test('the result does not depend on the previous snapshot', async (t) => {
  const random = createRandom()
  const pick = <Item>(items: readonly Item[]): Item => items[random.below(items.length)] as Item
  const names = ['a', 'b', 'c', 'd', 'e']
  const keys = names.map((name) => `llm/${name}`)
  const some = () => keys.filter(() => random.below(2) === 0).concat(pick(keys))
  const draw = {
    ModelRef: (name: string) => modelRef(name, { modelIds: [pick(names)] }),
    AccessPolicy: (name: string) => accessPolicy(name, some(), { users: [pick(names)] }),
    Subscription: (name: string) =>
      subscription(name, {}, Object.fromEntries(some().map((key) => [key, [[1, '1m']]]))),
  }
  const resources = new Map<string, Resource>()
  let snapshot = compile([])
  for (let round = 0; round < 300; round += 1) {
    const kind = pick(['ModelRef', 'AccessPolicy', 'Subscription'] as const)
    const resource = resourceOf(draw[kind](pick(names)))
    if (random.below(3) === 0) resources.delete(resourceKey(resource))
    else resources.set(resourceKey(resource), resource)
    const all = [...resources.values()]
    snapshot = compile(all, snapshot)
    t.strictSame(snapshot, compile(all), `seed ${random.seed}, round ${round}`)
  }
})
