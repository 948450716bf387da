import { test } from 'tap'
import { toOriginalStatus } from '../../../src/cluster/rules/object-status.ts'

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
