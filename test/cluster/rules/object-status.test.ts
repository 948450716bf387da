import { test } from 'tap'
import { resourceStatuses } from '../../../src/cluster/rules/conditions.ts'
import {
  toConditions,
  toObjectStatus,
  toOriginalStatus,
} from '../../../src/cluster/rules/object-status.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'

test('a status of an original kind has only the fields of that kind', async (t) => {
  const conditions = [
    {
      ...{ type: 'Ready', status: 'True', reason: 'Reconciled', message: '' },
      ...{ observedGeneration: 1, lastTransitionTime: '2026-01-01T00:00:00Z' },
    },
  ]
  const authPolicies = [{ name: 'maas-auth-small', namespace: 'llm', ready: true }]
  const status = { phase: 'Active', observedGeneration: 1, conditions }
  t.strictSame(toOriginalStatus({ ...status, models: 1, authPolicies }), {
    phase: 'Active',
    conditions,
    authPolicies,
  })
  t.strictSame(Object.keys(toOriginalStatus({ ...status, endpoint: undefined, ours: 1 })), [
    'phase',
    'conditions',
  ])
})

test('a message that is cut has no half of a character', async (t) => {
  const about = { before: undefined, generation: 1, now: 0 }
  const ready = { type: 'Ready', status: 'False', reason: 'ReconcileFailed' } as const
  for (const before of ['', 'x']) {
    const message = `${before}${'😀'.repeat(4_000)}`
    const [condition] = toConditions([{ ...ready, message }], about).conditions
    t.ok(condition?.message.isWellFormed(), 'the API server stores it as it is')
    t.equal(condition?.message.length, 4_096)
  }
  const [condition] = toConditions([{ ...ready, message: '😀'.slice(1) }], about).conditions
  t.equal(condition?.message, '\ufffd')
})

test('lists have the entries that the API server can store, those first that are not ready', async (t) => {
  const statusesOf = (count: number) => {
    const names = Array.from({ length: count }, (_, index) => `model-${index}`)
    const keys = names.map((name) => `llm/${name}`)
    const snapshot = snapshotOf(
      ...names.map((name) => modelRef(name)),
      accessPolicy('open', keys, { groups: ['a'] }),
      subscription(
        'paid',
        { groups: ['a'] },
        Object.fromEntries(keys.map((key) => [key, [[1, '1m']]])),
      ),
    )
    const weak = { status: 'False', reason: 'NotEnforced', message: 'p'.repeat(400) } as const
    const policyConditions = (key: string) =>
      key === keys.at(-1) ? ([{ ...weak, type: 'Accepted' }] as const) : []
    return resourceStatuses(snapshot)
      .filter(({ kind }) => kind !== 'ModelRef')
      .map((status) =>
        toObjectStatus({
          ...{ status, snapshot, policyConditions, gatewayUrl: '' },
          ...{ before: undefined, generation: 1, now: 0 },
        }),
      )
  }
  for (const status of statusesOf(5_000)) {
    t.equal(status.models, 5_000)
    t.ok(Buffer.byteLength(JSON.stringify(status)) < 250_000)
    const lists = [status.authPolicies, status.tokenRateLimitStatuses].filter(Array.isArray)
    for (const list of lists) {
      t.match(list[0], { ready: false, name: /model-4999$/ })
      t.match(list[1], { ready: true, name: /model-0$/ })
      t.ok(list.length > 500)
    }
  }
  for (const { authPolicies: list = [{ ready: true }] } of statusesOf(300)) {
    t.match(list, [{ ready: true }], 'in order where all fit')
  }
})
