import { test } from 'tap'
import { countedTokens, countersOf, type Usage } from '../../src/core/usage.ts'
import { modelRef, snapshotOf, subscription } from '../support/documents.ts'

const usage: Usage = {
  user: 'ada',
  subscription: 'team-a',
  model: 'llm/small',
  status: 200,
  totalTokens: 40,
}

test('whole tokens of a success count', async (t) => {
  for (const status of [200, 201, 204, 299]) t.equal(countedTokens({ ...usage, status }), 40)
  for (const totalTokens of [0, 1, Number.MAX_SAFE_INTEGER]) {
    t.equal(countedTokens({ ...usage, totalTokens }), totalTokens)
  }
})

test('anything but a success counts nothing', async (t) => {
  for (const status of [0, 100, 199, 300, 301, 400, 401, 429, 500, 503, Number.NaN]) {
    t.equal(countedTokens({ ...usage, status }), undefined, String(status))
  }
})

test('other reports of tokens are ignored', async (t) => {
  for (const totalTokens of [
    undefined,
    null,
    '40',
    '',
    'many',
    1.5,
    -1,
    -0.5,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    Number.NaN,
    2 ** 53,
    1e300,
    true,
    {},
    [40],
    40n,
  ]) {
    t.equal(countedTokens({ ...usage, totalTokens }), undefined, String(totalTokens))
  }
})

test('usage belongs to every window in force', async (t) => {
  const snapshot = snapshotOf(
    modelRef('small'),
    subscription(
      'team-a',
      { groups: ['a'] },
      {
        'llm/small': [
          [100, '1m'],
          [1_000, '1h'],
        ],
      },
    ),
  )
  t.strictSame(countersOf(usage, snapshot), [
    { key: 'team-a\nllm/small\n60000\nada', windowMs: 60_000 },
    { key: 'team-a\nllm/small\n3600000\nada', windowMs: 3_600_000 },
  ])
  for (const gone of [{ subscription: 'none' }, { model: 'llm/other' }, { model: 'constructor' }]) {
    t.strictSame(countersOf({ ...usage, ...gone }, snapshot), [])
  }
})
