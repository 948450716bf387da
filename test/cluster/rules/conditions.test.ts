import { test } from 'tap'
import { resourceStatuses, sharedPriorities } from '../../../src/cluster/rules/conditions.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const owner = { groups: ['a'] }
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('large', { backendUrl: undefined }),
  accessPolicy('open', ['llm/small'], owner),
  accessPolicy('half', ['llm/small', 'llm/gone'], owner),
  accessPolicy('empty', ['llm/gone'], owner),
  subscription('first', owner, { 'llm/small': [[1, '1m']] }, { priority: 10 }),
  subscription(
    'second',
    owner,
    { 'llm/small': [[1, '1m']], 'llm/gone': [[1, '1m']] },
    { priority: 20 },
  ),
  subscription('third', owner, { 'llm/gone': [[1, '1m']] }, { priority: 10 }),
  { apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant', metadata: { name: 'default-tenant' } },
)
const statuses = resourceStatuses(snapshot)

function conditions(kind: string, name: string) {
  const found = statuses.find((status) => status.kind === kind && status.name === name)
  return found?.conditions.map(({ type, status, reason }) => `${type} ${status} ${reason}`)
}

test('statuses are sorted by name', async (t) => {
  t.strictSame(
    statuses.map(({ kind, namespace, name, phase }) => `${kind} ${namespace}/${name} ${phase}`),
    [
      'AccessPolicy models-as-a-service/empty Failed',
      'AccessPolicy models-as-a-service/half Degraded',
      'AccessPolicy models-as-a-service/open Active',
      'ModelRef llm/large Pending',
      'ModelRef llm/small Ready',
      'Subscription models-as-a-service/first Active',
      'Subscription models-as-a-service/second Degraded',
      'Subscription models-as-a-service/third Failed',
      'Tenant models-as-a-service/default-tenant Active',
    ],
  )
})

test('Ready says why a resource is not ready', async (t) => {
  t.equal(conditions('ModelRef', 'small')?.[0], 'Ready True Reconciled')
  t.equal(conditions('ModelRef', 'large')?.[0], 'Ready False BackendNotReady')
  t.strictSame(conditions('AccessPolicy', 'open'), ['Ready True Reconciled'])
  t.strictSame(conditions('AccessPolicy', 'half'), ['Ready False PartialFailure'])
  t.strictSame(conditions('AccessPolicy', 'empty'), ['Ready False ReconcileFailed'])
  t.strictSame(conditions('Tenant', 'default-tenant'), ['Ready True Reconciled'])
  const half = statuses.find(({ name }) => name === 'half')
  t.equal(
    half?.conditions[0]?.message,
    'spec.modelRefs[1] names the model llm/gone, which does not exist',
  )
  t.match(statuses.find(({ name }) => name === 'large')?.conditions[0]?.message, /backendUrl/)
  t.equal(statuses.find(({ name }) => name === 'open')?.conditions[0]?.message, '')
})

test('subscriptions say whether their priority is shared', async (t) => {
  t.strictSame(conditions('Subscription', 'first'), [
    'Ready True Reconciled',
    'SpecPriorityDuplicate True SharedPriority',
  ])
  t.strictSame(conditions('Subscription', 'second'), [
    'Ready False PartialFailure',
    'SpecPriorityDuplicate False NoDuplicatePeers',
  ])
  const message = (of: string) => statuses.find(({ name }) => name === of)?.conditions[1]?.message
  t.equal(message('first'), 'priority 10 is shared with third')
  t.equal(message('third'), 'priority 10 is shared with first')
  t.strictSame(sharedPriorities(snapshot), [
    'priority 10 is shared by 2 Subscriptions: first, third',
  ])
})

test('peers are listed in order, at most ten of them', async (t) => {
  const limits = { 'llm/small': [[1, '1m']] } as const
  const crowd = (names: readonly string[]) =>
    snapshotOf(
      modelRef('small'),
      ...names.map((name) => subscription(name, owner, limits, { priority: -1 })),
      subscription('none', owner, limits),
    )
  const few = crowd(['c', 'a', 'b'])
  t.strictSame(sharedPriorities(few), ['priority 0 is shared by 4 Subscriptions: a, b, c, none'])
  const many = crowd('lkjihgfedcba'.split(''))
  t.strictSame(sharedPriorities(many), [
    'priority 0 is shared by 13 Subscriptions: a, b, c, d, e, f, g, h, i, j and 3 more',
  ])
  const messages = Object.fromEntries(
    resourceStatuses(many).map(({ name, conditions: [, shared] }) => [name, shared?.message]),
  )
  t.equal(messages.a, 'priority 0 is shared with b, c, d, e, f, g, h, i, j, k and 2 more')
  t.equal(messages.none, 'priority 0 is shared with a, b, c, d, e, f, g, h, i, j and 2 more')
})

const rate = [[1, '1m']] as const

test('a model of a provider that is not read says so', async (t) => {
  const spec = { modelRef: { kind: 'ExternalModel', name: 'gpt' }, backendUrl: undefined }
  const [status] = resourceStatuses(snapshotOf(modelRef('gpt', spec)))
  t.match(status?.conditions[0], { message: /there is no ExternalModel gpt$/ })
})

test('a model says whether it is governed and has a backend, as in the original', async (t) => {
  const snapshot = snapshotOf(
    modelRef('both'),
    modelRef('opened'),
    modelRef('covered', { backendUrl: undefined }),
    modelRef('neither'),
    accessPolicy('open', ['llm/both', 'llm/opened', 'llm/gone'], owner),
    subscription('paid', owner, { 'llm/both': rate, 'llm/covered': rate }),
    subscription('leaving', owner, { 'llm/opened': rate }, { deleting: true }),
  )
  const shown = resourceStatuses(snapshot)
    .filter(({ kind }) => kind === 'ModelRef')
    .map(({ name, conditions }) => [name, ...conditions.slice(-2).map((each) => ({ ...each }))])
  const paired = { type: 'GovernanceAttached', status: 'True', reason: 'GovernancePaired' }
  const lacking = { type: 'GovernanceAttached', status: 'False', reason: 'NoPairingFound' }
  const healthy = { type: 'RuntimeReady', status: 'True', reason: 'RuntimeHealthy' }
  const ill = { type: 'RuntimeReady', status: 'False', reason: 'RuntimeHealthFailure' }
  const [noPolicy, noPayer] = ['AccessPolicy', 'Subscription'].map(
    (kind) => `no ${kind} names the model`,
  )
  t.match(shown, [
    ['both', { ...paired, message: '' }, healthy],
    ['covered', { ...lacking, message: noPolicy }, { ...ill, message: /backendUrl is not set/ }],
    ['neither', { ...lacking, message: `${noPolicy}; ${noPayer}` }, healthy],
    ['opened', { ...lacking, message: noPayer }, healthy],
  ])
})

test('a Tenant whose limits cannot be read has failed', async (t) => {
  const [status] = resourceStatuses(
    snapshotOf({
      ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant' },
      ...{ metadata: { name: 'default-tenant' }, spec: { calendar: { monthStartsOn: 29 } } },
    }),
  )
  t.match(status, {
    phase: 'Failed',
    conditions: [
      {
        status: 'False',
        reason: 'ReconcileFailed',
        message: /^spec\.calendar\.monthStartsOn must be .* 1 to 28, so nobody may use any model$/,
      },
    ],
  })
})

test('a Subscription that is being deleted is not Active, although its models exist', async (t) => {
  const limits = { 'llm/small': [[1, '1m']] } as const
  const found = resourceStatuses(
    snapshotOf(modelRef('small'), subscription('leaving', owner, limits, { deleting: true })),
  ).find(({ name }) => name === 'leaving')
  t.equal(found?.phase, 'Failed')
  t.match(found?.conditions[0], {
    ...{ type: 'Ready', status: 'False', reason: 'ReconcileFailed' },
    message: 'it is being deleted, so it is not in force',
  })
})
