import { test } from 'tap'
import type { LimitKind, NamedLimit } from '../../../src/kinds/limits.ts'
import type { Dialect } from '../../../src/operations/dialect.ts'
import {
  type LimitSource,
  toCountedLimit,
  toCountedLimits,
} from '../../../src/ratelimit/rules/counted-limits.ts'
import type { CounterState } from '../../../src/ratelimit/rules/counter.ts'
import { limitStates } from '../../../src/ratelimit/rules/limit.ts'
import {
  putLimitHeaders,
  secondsUntil,
  toResetDuration,
} from '../../../src/ratelimit/rules/limit-headers.ts'

const now = Date.UTC(2026, 0, 1)
const limits = toCountedLimits('basic', 'llm/small', [
  { limit: 100, window: '1m', windowMs: 60_000 },
  { limit: 1_000, window: '1h', windowMs: 3_600_000 },
])

/** A window with this many tokens used, ending in this many milliseconds. */
const used = (tokens: number, endsInMs: number): CounterState => ({
  used: tokens,
  resetsAt: now + endsInMs,
})

function headers(
  states: readonly CounterState[],
  dialect: Dialect = 'openai',
  of = limits,
): Record<string, string> {
  const put: Record<string, string> = {}
  putLimitHeaders(dialect, limitStates(of, states, now), now, (name, value) => {
    put[name] = value
  })
  return put
}

test('the IETF fields list every limit', async (t) => {
  t.match(headers([used(30, 12_345), used(30, 1_800_000)]), {
    'ratelimit-policy': '"1m";q=100;w=60;qu="tokens", "1h";q=1000;w=3600;qu="tokens"',
    ratelimit: '"1m";r=70;t=13, "1h";r=970;t=1800',
  })
})

test('the highest limit is an integer of a structured field', async (t) => {
  const highest = [{ limit: 1_000_000_000_000_000, window: '1m', windowMs: 60_000 }]
  t.match(headers([used(0, 1_000)], 'openai', toCountedLimits('basic', 'llm/small', highest)), {
    'ratelimit-policy': '"1m";q=999999999999999;w=60;qu="tokens"',
    ratelimit: '"1m";r=999999999999999;t=1',
    'x-ratelimit-limit-tokens': '1000000000000000',
  })
})

test('one limit makes a list of one', async (t) => {
  t.match(headers([used(30, 1_000)], 'openai', limits.slice(0, 1)), {
    'ratelimit-policy': '"1m";q=100;w=60;qu="tokens"',
    ratelimit: '"1m";r=70;t=1',
  })
})

test('the limit with the smallest share left is the binding one', async (t) => {
  for (const [states, window, remaining, resetMs] of [
    [[used(30, 1_000), used(30, 2_000)], '1m', 70, 1_000],
    [[used(30, 1_000), used(301, 2_000)], '1h', 699, 2_000],
    [[used(10, 1_000), used(100, 2_000)], '1h', 900, 2_000],
    [[used(100, 1_000), used(1_000, 2_000)], '1h', 0, 2_000],
    [[used(100, 2_000), used(1_000, 1_000)], '1m', 0, 2_000],
    [[used(140, 1_000), used(999, 2_000)], '1m', 0, 1_000],
    [[used(0, 2_000), used(0, 3_000)], '1h', 1_000, 3_000],
    [[used(1, 1_000), used(0, 9_000)], '1m', 99, 1_000],
  ] as const) {
    t.match(headers(states), {
      'x-ratelimit-limit-tokens': window === '1m' ? '100' : '1000',
      'x-ratelimit-remaining-tokens': String(remaining),
      'x-ratelimit-reset-tokens': toResetDuration(resetMs),
    })
  }
  t.notOk('x-ratelimit-limit-tokens' in headers([], 'openai', []))
})

test('Anthropic’s reset is an instant', async (t) => {
  t.strictSame(headers([used(30, 12_345), used(0, 3_600_000)], 'anthropic'), {
    'anthropic-ratelimit-tokens-limit': '100',
    'anthropic-ratelimit-tokens-remaining': '70',
    'anthropic-ratelimit-tokens-reset': '2026-01-01T00:00:13Z',
    'ratelimit-policy': '"1m";q=100;w=60;qu="tokens", "1h";q=1000;w=3600;qu="tokens"',
    ratelimit: '"1m";r=70;t=13, "1h";r=1000;t=3600',
  })
})

/** A limit by name. */
function named(name: string, of: LimitKind, more: Partial<NamedLimit> & Partial<LimitSource> = {}) {
  const { origin = 'subscription', ...limit } = more
  const window = { every: 'month', zone: 'UTC' } as const
  const all = {
    name,
    of,
    per: 'group',
    limit: 1_000,
    window: 'month',
    windowMs: 0,
    enforce: true,
  } as const
  const whose = { subscription: 'basic', organization: '' }
  return toCountedLimit({ ...all, models: undefined, ...limit }, window, {
    resource: 'basic',
    origin,
    whose,
  })
}

test('the tightest budget has headers of its own', async (t) => {
  const nano = 10n ** 9n
  const budgets = [
    named('month', 'cost', { limit: 9_000_000_000n * nano }),
    named('day', 'cost', { limit: 12_500_000_000 }),
    named('all', 'cost', { limit: 10, origin: 'tenant' }),
  ]
  const states = [
    { used: 4_500_000_000n * nano + 1n, resetsAt: now + 90_000 },
    { used: 6_249_999_999, resetsAt: now + 30_500 },
    { used: 10, resetsAt: now + 1 },
  ]
  for (const dialect of ['openai', 'anthropic'] as const) {
    t.strictSame(headers(states, dialect, budgets), {
      'x-tollgate-budget-limit': '9000000000',
      'x-tollgate-budget-remaining': '4499999999.999999999',
      'x-tollgate-budget-reset': '2026-01-01T00:01:30Z',
    })
  }
  t.strictSame(headers(states.slice(1), 'openai', budgets.slice(1)), {
    'x-tollgate-budget-limit': '12.5',
    'x-tollgate-budget-remaining': '6.250000001',
    'x-tollgate-budget-reset': '2026-01-01T00:00:31Z',
  })
  t.strictSame(headers(states.slice(2), 'openai', budgets.slice(2)), {}, "others' use is not told")
})

test('limits by name are listed by it, those of models and the Tenant are not', async (t) => {
  const all = [
    named('pool', 'tokens'),
    named('in', 'input'),
    named('out', 'output', { origin: 'key', per: 'key' }),
    named('calls', 'requests', { windowMs: 60_000 }),
    ...(['model', 'tenant'] as const).flatMap((origin) => [
      named('secret', 'tokens', { limit: 10, origin }),
      named('secret', 'requests', { limit: 10, origin }),
    ]),
  ]
  const put = headers(
    all.map(() => used(9, 60_000)),
    'openai',
    all,
  )
  t.strictSame(put, {
    'ratelimit-policy':
      '"pool";q=1000;qu="tokens", "in";q=1000;qu="input-tokens", "key-out";q=1000;qu="output-tokens", ' +
      '"calls";q=1000;w=60;qu="requests"',
    ratelimit: '"pool";r=991;t=60, "in";r=991;t=60, "key-out";r=991;t=60, "calls";r=991;t=60',
    'x-ratelimit-limit-tokens': '1000',
    'x-ratelimit-remaining-tokens': '991',
    'x-ratelimit-reset-tokens': '1m0s',
    'x-ratelimit-limit-requests': '1000',
    'x-ratelimit-remaining-requests': '991',
    'x-ratelimit-reset-requests': '1m0s',
  })
})

test('no two limits have the same name there', async (t) => {
  const own = { origin: 'key', per: 'key' } as const
  for (const [name, limit] of [
    ['pool', named('pool', 'tokens')],
    ['limit-1h', named('1h', 'tokens')],
    ['limit-limit-1h', named('limit-1h', 'tokens')],
    ['limit-requests-1m', named('requests-1m', 'tokens')],
    ['limit-concurrency', named('concurrency', 'tokens')],
    ['limit-key-pool', named('key-pool', 'tokens')],
    ['limit-pool', named('limit-pool', 'tokens')],
    ['key-pool', named('pool', 'tokens', own)],
    ['key-limit-1h', named('1h', 'tokens', own)],
  ] as const) {
    t.match(headers([used(9, 60_000)], 'openai', [limit]), {
      'ratelimit-policy': `"${name}";q=1000;qu="tokens"`,
      ratelimit: `"${name}";r=991;t=60`,
    })
  }
})

test('without a limit there are no headers', async (t) => {
  t.strictSame(headers([], 'openai', []), {})
  t.strictSame(headers([], 'anthropic', []), {})
})

test('reset times are written in Go’s format', async (t) => {
  for (const [waitMs, expected] of [
    [-5, '1ms'],
    [0, '1ms'],
    [0.2, '1ms'],
    [250, '250ms'],
    [999, '999ms'],
    [999.5, '1s'],
    [1_000, '1s'],
    [1_001, '2s'],
    [59_999, '1m0s'],
    [60_000, '1m0s'],
    [360_000, '6m0s'],
    [3_599_001, '1h0m0s'],
    [3_723_000, '1h2m3s'],
    [86_400_000, '24h0m0s'],
    [366 * 86_400_000, '8784h0m0s'],
  ] as const) {
    t.equal(toResetDuration(waitMs), expected)
  }
})

test('seconds are rounded up and at least one', async (t) => {
  for (const [afterMs, expected] of [
    [-5_000, 1],
    [0, 1],
    [1, 1],
    [1_000, 1],
    [1_001, 2],
  ] as const) {
    t.equal(secondsUntil(now + afterMs, now), expected)
  }
})
