import { test } from 'tap'
import { resourceStatuses } from '../../../src/cluster/rules/conditions.ts'
import {
  createPolicyConditions,
  modelOfPolicy,
  policyKinds,
  policyNameOf,
  policyStatuses,
  toPolicyObject,
} from '../../../src/cluster/rules/generated-policies.ts'
import { toObjectStatus } from '../../../src/cluster/rules/object-status.ts'
import type { ModelPolicies } from '../../../src/cluster/rules/policies.ts'
import type { RefusedResource } from '../../../src/models/rules/refused-resources.ts'
import { policiesOf } from '../../support/compile.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const team = { groups: ['team'] }
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('large'),
  accessPolicy('open', ['llm/small', 'llm/gone'], team),
  accessPolicy('all', ['llm/small', 'llm/large'], team),
  subscription('cheap', team, { 'llm/small': [[10, '1m']], 'llm/large': [[1, '1m']] }),
)
const refused: readonly RefusedResource[] = [
  { kind: 'Subscription', name: 'bad', modelKeys: ['llm/small'], message: 'spec is no object' },
]
const policies = policiesOf(snapshot, refused)
const small = policies.byModel.get('llm/small') as ModelPolicies
const owner = { apiVersion: 'tollgate.dev/v1alpha1', kind: 'ModelRef', name: 'small', uid: 'u-1' }
const isEnforced = (status: 'True' | 'False' | 'Unknown') => () =>
  ({ type: 'Enforced', status, reason: 'R', message: 'gateway-1 lacks it' }) as const

test('policies have the names that the contract gives', async (t) => {
  t.strictSame(toPolicyObject(small, 'ModelAuthPolicy', owner), {
    apiVersion: 'tollgate.dev/v1alpha1',
    kind: 'ModelAuthPolicy',
    metadata: {
      name: 'maas-auth-small',
      namespace: 'llm',
      labels: {
        'tollgate.dev/model': 'small',
        'app.kubernetes.io/managed-by': 'tollgate-controller',
        'app.kubernetes.io/part-of': 'maas-auth-policy',
        'app.kubernetes.io/component': 'auth-policy',
      },
      annotations: {
        'tollgate.dev/auth-policies': 'all,open',
        'maas.opendatahub.io/auth-policies': 'all,open',
      },
      ownerReferences: [owner],
    },
    spec: {
      modelRef: { name: 'small' },
      accessPolicies: ['all', 'open'],
      accessPolicyCount: 2,
      users: 0,
      groups: 1,
      digest: small.access?.digest,
    },
  })
  t.match(toPolicyObject(small, 'TokenRateLimitPolicy', owner), {
    kind: 'TokenRateLimitPolicy',
    metadata: {
      name: 'maas-trlp-small',
      labels: {
        'tollgate.dev/model-namespace': 'llm',
        'app.kubernetes.io/part-of': 'maas-subscription',
        'app.kubernetes.io/component': 'token-rate-limit-policy',
      },
      annotations: {
        'tollgate.dev/subscriptions': 'cheap',
        'maas.opendatahub.io/subscriptions': 'cheap',
      },
    },
    spec: { subscriptions: ['cheap'], subscriptionCount: 1, limits: 1 },
  })
  t.equal(toPolicyObject({ ...small, access: undefined }, 'ModelAuthPolicy', owner), undefined)
})

test('the model is found by the name of its policy', async (t) => {
  for (const kind of policyKinds) {
    t.equal(modelOfPolicy(kind, policyNameOf(kind, 'llm/small').join('/')), 'llm/small')
    t.equal(modelOfPolicy(kind, 'llm/small'), undefined)
  }
})

test('Accepted is False with the reason for the refusal', async (t) => {
  const conditionsOf = createPolicyConditions(policies)
  t.strictSame(conditionsOf('llm/small', 'ModelAuthPolicy'), [
    { type: 'Accepted', status: 'True', reason: 'Accepted', message: '' },
  ])
  t.match(conditionsOf('llm/small', 'TokenRateLimitPolicy'), [
    {
      status: 'False',
      reason: 'NotAccepted',
      message: 'Subscription bad is not in force: spec is no object',
    },
  ])
  t.strictSame(conditionsOf('llm/gone', 'ModelAuthPolicy'), [])
  const listed = policyStatuses(policies, conditionsOf)
  t.strictSame(
    listed.map(({ kind, name }) => `${kind} ${name}`),
    [
      'ModelAuthPolicy maas-auth-large',
      'ModelAuthPolicy maas-auth-small',
      'TokenRateLimitPolicy maas-trlp-large',
      'TokenRateLimitPolicy maas-trlp-small',
    ],
  )
})

test('a resource is ready only if its policies are', async (t) => {
  const show = (enforced?: 'True' | 'False' | 'Unknown') => {
    const policyConditions = createPolicyConditions(policies, enforced && isEnforced(enforced))
    return resourceStatuses(snapshot, { policyConditions })
      .filter(({ kind }) => kind !== 'ModelRef')
      .map(({ name, phase, conditions: [ready] }) => `${name} ${phase} ${ready?.status}`)
  }
  t.strictSame(show(), ['all Active True', 'open Degraded False', 'cheap Degraded False'])
  t.strictSame(show('True'), show())
  t.strictSame(show('False'), ['all Degraded False', 'open Degraded False', 'cheap Degraded False'])
  t.strictSame(show('Unknown').slice(0, 2), ['all Degraded Unknown', 'open Degraded False'])
  const [all] = resourceStatuses(snapshot, {
    policyConditions: createPolicyConditions(policies, isEnforced('False')),
  })
  t.match(all?.conditions[0], {
    reason: 'PartialFailure',
    message: /^llm\/maas-auth-small is not enforced: gateway-1 lacks it; llm\/maas-auth-large/,
  })
})

test('a status lists the result for each model', async (t) => {
  const fields = (kind: string, name: string, enforced: 'True' | 'False') => {
    const policyConditions = createPolicyConditions(policies, isEnforced(enforced))
    const status = resourceStatuses(snapshot, { policyConditions }).find(
      (each) => each.kind === kind && each.name === name,
    )
    if (status === undefined) throw new Error('no such status')
    const about = { snapshot, gatewayUrl: '', before: undefined, generation: 1, now: 0 }
    return toObjectStatus({ status, policyConditions, ...about })
  }
  const open = fields('AccessPolicy', 'open', 'True')
  t.strictSame(open.authPolicies, [
    {
      ...{ name: 'maas-auth-small', namespace: 'llm', model: 'small', modelNamespace: 'llm' },
      ...{ ready: true, reason: 'AcceptedEnforced', message: '' },
    },
  ])
  t.match(open.conditions[0], { type: 'Ready', message: /llm\/gone/ })
  t.match(fields('AccessPolicy', 'all', 'False').authPolicies, [
    { ready: false, reason: 'R', message: 'gateway-1 lacks it' },
    { ready: false },
  ])
  t.match(fields('Subscription', 'cheap', 'False').tokenRateLimitStatuses, [
    { name: 'maas-trlp-small', model: 'small', ready: false, reason: 'NotAccepted' },
    { name: 'maas-trlp-large', model: 'large', ready: true, reason: 'Accepted' },
  ])
})
