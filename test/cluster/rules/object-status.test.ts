import { test } from 'tap'
import { toConditions, toOriginalStatus } from '../../../src/cluster/rules/object-status.ts'

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
