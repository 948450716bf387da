import { test } from 'tap'
import { resourceStatuses } from '../../../src/cluster/rules/conditions.ts'
import {
  enforcedCondition,
  type InForce,
  type ProcessReport,
  programmedCondition,
  type Reports,
  statusViewsOf,
} from '../../../src/cluster/rules/enforcement.ts'
import type { ModelPolicies } from '../../../src/cluster/rules/policies.ts'
import { policiesOf } from '../../support/compile.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const team = { groups: ['team'] }
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('bare', { backendUrl: undefined }),
  accessPolicy('open', ['llm/small'], team),
  accessPolicy('none', ['llm/bare'], team),
  subscription('cheap', team, { 'llm/small': [[10, '1m']] }),
)
const policies = policiesOf(snapshot)
const small = policies.byModel.get('llm/small') as ModelPolicies
const whole: InForce = {
  access: small.access?.digest ?? '',
  limits: small.limits?.digest ?? '',
  server: small.server,
  envoy: 'taken',
}
const process = (
  name: string,
  more: Partial<InForce> | undefined = {},
  unreportedMs: number | undefined = 0,
): ProcessReport => ({
  name,
  unreportedMs,
  inForce: new Map(more && [['llm/small', { ...whole, ...more }]]),
})
const show = (reports: Reports) => {
  const { status, reason, message } = enforcedCondition(small, 'ModelAuthPolicy', reports)
  return `${status} ${reason} ${message}`.trim()
}

test('Enforced is True if the policy is in force in every process', async (t) => {
  t.equal(show([process('a')]), 'True Enforced')
  t.equal(show([process('a'), process('b', {}, 29_000)]), 'True Enforced')
})

test('a single process without the policy makes Enforced False and is named', async (t) => {
  t.equal(show([]), 'False NotEnforced no process is serving')
  const absent = { name: 'b', unreportedMs: 0, inForce: new Map() }
  t.equal(show([process('a'), absent]), 'False NotEnforced not in force yet in b')
  const lacks = 'False NotEnforced not in force yet in a, b'
  t.equal(show([process('a', { access: 'other' }), process('b', { server: 'other' })]), lacks)
  t.equal(
    show([process('a', { envoy: 'not taken' }), process('b', { envoy: 'no answer' })]),
    'False NotEnforced the cluster is not taken by the Envoy of a; no answer from the Envoy of b',
  )
  t.equal(
    show([process('a', { limits: 'other' })]),
    'True Enforced',
    'the limits are another policy',
  )
  const ofLimits = (more: Partial<InForce>) =>
    enforcedCondition(small, 'TokenRateLimitPolicy', [process('a', more)]).status
  t.equal(ofLimits({ limits: 'other' }), 'False')
  t.equal(ofLimits({ access: 'other' }), 'True')
})

test('Enforced is Unknown, not True, without current reports', async (t) => {
  t.equal(show({ problem: 'Postgres does not answer' }), 'Unknown Unknown Postgres does not answer')
  t.equal(show([process('a', {}, 30_001)]), 'Unknown Unknown no report for 30 s by a')
  t.equal(
    show([process('a', { access: 'x' }), process('b', {}, 60_000)]),
    'Unknown Unknown not in force yet in a; no report for 30 s by b',
  )
  const older = { ...process('a'), unreportedMs: undefined }
  t.equal(show([older]), 'Unknown Unknown no reports (earlier version) by a')
})

test('at most ten processes are named', async (t) => {
  const many = Array.from({ length: 12 }, (_, i) => process(`p${i}`, { access: 'x' }))
  t.match(show(many), /not in force yet in p0, p1, .*p9 and 2 more$/)
})

test('for a model without a backend nothing is enforced', async (t) => {
  const bare = policies.byModel.get('llm/bare') as ModelPolicies
  for (const reports of [[process('a')], { problem: 'x' }]) {
    t.match(enforcedCondition(bare, 'ModelAuthPolicy', reports), {
      status: 'False',
      reason: 'BackendNotReady',
    })
  }
})

test('a ModelRef says whether Envoy has its cluster', async (t) => {
  t.match(programmedCondition(small, [process('a')]), { type: 'Programmed', status: 'True' })
  t.match(programmedCondition(small, [process('a', { access: 'x', limits: 'x' })]), {
    status: 'True',
  })
  t.match(programmedCondition(small, [process('a', { envoy: 'not taken' })]), {
    status: 'False',
    reason: 'NotProgrammed',
    message: 'the cluster is not taken by the Envoy of a',
  })
})

test('the conditions of resources follow the enforcement', async (t) => {
  const phases = (reports: Reports) => {
    const all = resourceStatuses(snapshot, statusViewsOf({ policies, reports }))
    return all.map(({ name, phase, conditions: [ready] }) => `${name} ${phase} ${ready?.status}`)
  }
  const rest = ['bare Pending False', 'small Ready True', 'cheap Active True']
  t.strictSame(phases([process('a')]), ['none Degraded False', 'open Active True', ...rest])
  const held = statusViewsOf({
    policies,
    reports: [process('a')],
    isHeld: (model) => model === 'llm/small',
  })
  const newer = { status: 'False', message: 'a newer version is not in force in this process yet' }
  t.match(held.programmedCondition('llm/small'), { ...newer, reason: 'NotProgrammed' })
  const [, enforced] = held.policyConditions('llm/small', 'ModelAuthPolicy')
  t.match(enforced, { ...newer, reason: 'NotEnforced' })
  t.strictSame(phases({ problem: 'x' }), ['none Degraded False', 'open Degraded Unknown', ...rest])
})
