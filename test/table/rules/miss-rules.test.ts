import { test } from 'tap'
import type { Grant } from '../../../src/decide/decision.ts'
import { toCountedLimits } from '../../../src/ratelimit/rules/counted-limits.ts'
import { missRule } from '../../../src/table/rules/hit-plan.ts'
import { missRules } from '../../../src/table/rules/miss-rules.ts'
import { modelRef, snapshotOf } from '../../support/documents.ts'
import { grantOf } from '../../support/table-world.ts'

const plain = grantOf('alice', [[1_000, '1h']])
const post = {
  ...{ method: 'POST', operation: '/v1/chat/completions', query: '' },
  ...{ isTraced: false, hasFields: false, isOneAnswer: false },
}
const key = plain.caller as Extract<Grant['caller'], { by: 'key' }>
const renamed = snapshotOf(modelRef('small', { upstreamModel: 'big' })).models.get('llm/small')
const limitOf = (kind: 'requests' | 'concurrency') =>
  toCountedLimits('basic', 'llm/small', [{ limit: 5, window: '1h', windowMs: 3_600_000 }], { kind })

test('a counted operation of a key is decided by the table', async (t) => {
  for (const [operation, query] of [
    ['/v1/chat/completions', ''],
    ['/v1/messages', '?beta=true'],
    ['/v1/embeddings', ''],
  ] as const) {
    t.equal(missRule(plain, { ...post, operation, query }), undefined)
  }
  t.equal(missRule(grantOf('alice', []), post), undefined)
})

const cases: readonly (readonly [string, Partial<Grant>, Partial<typeof post>])[] = [
  [
    'identity_token',
    { caller: { by: 'token', user: 'alice', groups: [], proof: { by: 'file' } } },
    {},
  ],
  ['key_news', { caller: { ...key, keyAgeMs: 5 } }, {}],
  ['key_news', { caller: { ...key, endsSoonAt: 5 } }, {}],
  ['addresses', grantOf('alice', [], { allowedAddresses: ['10.0.0.0/8'] }), {}],
  ['operation', {}, { method: 'PUT' }],
  ['operation', {}, { method: 'GET', operation: '/v1/models' }],
  ['operation', {}, { operation: '/v1/messages/count_tokens' }],
  ['operation', {}, { operation: '/v1/chat/completions/' }],
  ['query', {}, { query: '?beta=false' }],
  ['query', {}, { query: '?' }],
  ['unread', { isUnread: true }, {}],
  ['unmetered', { metered: false }, {}],
  ['unmetered', { metered: false, meteredIfReported: true }, {}],
  ['reserve', { admission: { overshoot: 0.1, charge: 'end' } as Grant['admission'] }, {}],
  ['requests', { limits: [...plain.limits, ...limitOf('requests')] }, {}],
  ['concurrency', { limits: [...plain.limits, ...limitOf('concurrency')] }, {}],
  ['budget', { isByTariff: true }, {}],
  [
    'limits',
    grantOf(
      'alice',
      [1, 2, 3, 4, 5, 6, 7].map((hours) => [9, `${hours}h`] as const),
    ),
    {},
  ],
  ['renamed', { model: renamed as Grant['model'] }, {}],
  ['renamed', { sentName: 'big' }, {}],
  ['one_answer', {}, { isOneAnswer: true }],
  ['fields', {}, { hasFields: true }],
  ['traced', {}, { isTraced: true }],
  ['too_long', grantOf('x'.repeat(200), []), {}],
  ['too_long', { bodyNames: 'x'.repeat(3_000) }, {}],
]

test('what is not the same each time is asked each time', async (t) => {
  for (const [rule, grant, asked] of cases) {
    t.equal(missRule({ ...plain, ...grant }, { ...post, ...asked }), rule)
  }
  const tested = new Set(cases.map(([rule]) => rule))
  t.strictSame([...tested].sort(), [...missRules].sort())
})
