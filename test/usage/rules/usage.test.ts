import { test } from 'tap'
import {
  chargeOf,
  countedTokens,
  nothingReported,
  tokenCountersOf,
  tokensByType,
  type Usage,
} from '../../../src/usage/rules/usage.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const usage: Usage = {
  user: 'ada',
  subscription: 'team-a',
  model: 'llm/small',
  status: 200,
  reported: new Map([['total_tokens', 40]]),
  bytes: 100,
}

function reporting(fields: Readonly<Record<string, unknown>>): Usage {
  return { ...usage, reported: new Map(Object.entries(fields)) }
}

test('whole numbers of tokens of a successful response are counted', async (t) => {
  for (const status of [200, 201, 204, 299]) t.equal(countedTokens({ ...usage, status }), 40)
  for (const totalTokens of [0, 1, Number.MAX_SAFE_INTEGER]) {
    t.equal(countedTokens(reporting({ total_tokens: totalTokens })), totalTokens)
  }
})

test('only a successful response is counted', async (t) => {
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
    t.equal(countedTokens(reporting({ total_tokens: totalTokens })), undefined, String(totalTokens))
    t.equal(
      countedTokens(reporting({ input_tokens: totalTokens, output_tokens: totalTokens })),
      undefined,
      `a message's ${String(totalTokens)}`,
    )
  }
  t.equal(countedTokens({ ...usage, reported: nothingReported }), undefined)
})

test('without a usable total both parts add up', async (t) => {
  const parts = { prompt_tokens: 10, completion_tokens: 7 }
  for (const total of [undefined, null, '17', 0, -1, false]) {
    t.equal(countedTokens(reporting({ ...parts, total_tokens: total })), 17, String(total))
  }
  t.equal(countedTokens(reporting({ ...parts, cache_read_input_tokens: 100 })), 117)
  t.equal(countedTokens(reporting({ ...parts, total_tokens: 20 })), 20, 'a total counts')
  const zeros = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
  t.equal(countedTokens(reporting(zeros)), 0)
  t.equal(countedTokens(reporting({ prompt_tokens: 10, completion_tokens: 0 })), 10, 'embeddings')
  for (const half of [{ prompt_tokens: 10 }, { completion_tokens: 7, prompt_tokens: '10' }]) {
    t.equal(countedTokens(reporting(half)), undefined, JSON.stringify(half))
  }
})

test('only the part that is missing is estimated', async (t) => {
  const charged = (fields: object, unusable: 'allow' | 'estimate') =>
    chargeOf(reporting({ ...fields }), unusable)
  for (const half of [{ prompt_tokens: 10 }, { completion_tokens: 10 }]) {
    t.strictSame(charged(half, 'allow'), { tokens: undefined, unusable: true, estimated: 0 })
    t.strictSame(charged(half, 'estimate'), { tokens: 35, unusable: true, estimated: 25 })
  }
  const cached = { cache_read_input_tokens: 10 }
  for (const half of [
    { input_tokens: 10 },
    { output_tokens: 10 },
    { start_output_tokens: 10 },
    cached,
  ]) {
    t.strictSame(charged(half, 'allow'), { tokens: 10, unusable: true, estimated: 0 }, 'a message')
    t.strictSame(charged(half, 'estimate'), { tokens: 35, unusable: true, estimated: 25 })
    const budgeted = { ...reporting(half), hasCostLimit: true }
    const estimate = { input: 40, bytesPerToken: 4 }
    const missing = 'output_tokens' in half || 'start_output_tokens' in half ? 40 : 25
    const told = { tokens: 10 + missing, unusable: true, estimated: missing }
    t.strictSame(chargeOf({ ...budgeted, estimate }, 'allow'), told, 'nothing is free')
  }
  const whole = { prompt_tokens: 10, completion_tokens: 1 }
  t.strictSame(charged(whole, 'estimate'), { tokens: 11, unusable: false, estimated: 0 })
})

test('a message counts all input and output tokens', async (t) => {
  const cached = { cache_creation_input_tokens: 100, cache_read_input_tokens: 1_000 }
  for (const [report, tokens] of [
    [{ input_tokens: 25, output_tokens: 12 }, 37],
    [{ input_tokens: 25, output_tokens: 12, ...cached }, 1_137],
    [{ input_tokens: 0, output_tokens: 0 }, 0],
    // An incomplete report is counted too, so that no generated token is free.
    [{ output_tokens: 12 }, 12],
    [{ input_tokens: 25 }, 25],
    [{ cache_read_input_tokens: 7 }, 7],
    [{ input_tokens: '25', output_tokens: 12 }, 12],
    [{ input_tokens: 25, cache_read_input_tokens: -3, output_tokens: 1.5 }, 25],
    [{ input_tokens: Number.MAX_SAFE_INTEGER, output_tokens: 1 }, undefined],
  ] as const) {
    t.equal(countedTokens(reporting(report)), tokens, JSON.stringify(report))
  }
})

test('start and end of a stream describe one response', async (t) => {
  for (const [report, tokens] of [
    [{ start_input_tokens: 25, start_output_tokens: 1, output_tokens: 12 }, 37],
    [{ start_input_tokens: 25, start_output_tokens: 1 }, 26],
    [{ start_input_tokens: 0, start_output_tokens: 0, input_tokens: 25, output_tokens: 12 }, 37],
    [{ start_input_tokens: 25, input_tokens: 0, output_tokens: 12 }, 37],
    [{ start_input_tokens: 25, input_tokens: 25, output_tokens: 12 }, 37],
    [{ start_input_tokens: 25, start_output_tokens: 8, output_tokens: 0 }, 33],
    // The end reports input as cached that the start has reported as uncached.
    [
      { start_input_tokens: 100, input_tokens: 20, cache_read_input_tokens: 80, output_tokens: 5 },
      105,
    ],
    [
      {
        start_input_tokens: 20,
        start_cache_read_input_tokens: 80,
        start_cache_creation_input_tokens: 1,
        output_tokens: 5,
      },
      106,
    ],
  ] as const) {
    t.equal(countedTokens(reporting(report)), tokens, JSON.stringify(report))
  }
})

test('usage is counted in every window in force', async (t) => {
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
  t.strictSame(tokenCountersOf(usage, snapshot), [
    { key: 'team-a\nllm/small\n60000\nada', owner: 'ada', window: { ms: 60_000 }, limit: 100 },
    {
      key: 'team-a\nllm/small\n3600000\nada',
      owner: 'ada',
      window: { ms: 3_600_000 },
      limit: 1_000,
    },
  ])
  for (const gone of [{ subscription: 'none' }, { model: 'llm/other' }, { model: 'constructor' }]) {
    t.strictSame(tokenCountersOf({ ...usage, ...gone }, snapshot), [])
  }
})

test('tokens by type are read in each dialect', async (t) => {
  const typed = (fields: Record<string, unknown>) => tokensByType(new Map(Object.entries(fields)))
  t.strictSame(
    typed({
      prompt_tokens: 20,
      completion_tokens: 10,
      details_cached_tokens: 8,
      details_reasoning_tokens: 4,
    }),
    { input: 20, cached: 8, cacheWrite: 0, output: 10, reasoning: 4 },
  )
  t.strictSame(
    typed({
      start_input_tokens: 5,
      start_cache_read_input_tokens: 7,
      start_cache_creation_input_tokens: 1,
      start_output_tokens: 1,
      output_tokens: 9,
    }),
    { input: 13, cached: 7, cacheWrite: 1, output: 9, reasoning: 0 },
  )
  t.strictSame(typed({ prompt_tokens: '20', completion_tokens: -1, details_cached_tokens: 0.5 }), {
    input: 0,
    cached: 0,
    cacheWrite: 0,
    output: 0,
    reasoning: 0,
  })
})
