import { test } from 'tap'
import type { Denial, Grant } from '../../src/decide/decision.ts'
import { limitCodes } from '../../src/decide/decision.ts'
import { denialMessage } from '../../src/decide/refusal-message.ts'
import { enforceHold } from '../../src/decide/steps/limits.ts'
import type { ExactInt } from '../../src/formats/exact.ts'
import { toTimestamp } from '../../src/formats/time.ts'
import type { LimitKind } from '../../src/kinds/limits.ts'
import { counterOf } from '../../src/ratelimit/rules/counter-cache.ts'
import { emptyHold } from '../../src/ratelimit/rules/hold.ts'
import type { CountedLimit, LimitState } from '../../src/ratelimit/rules/limit.ts'

const now = Date.UTC(2026, 10, 26, 12)
const key = { by: 'key', user: 'alice', groups: [], keyId: 'k', subscription: 'premium' } as const
const grant = { subscription: 'premium', caller: key } as unknown as Grant

function stateOf(limit: Partial<CountedLimit>, used: ExactInt, resetsAt: number): LimitState {
  const parsedWindow = { ms: 60_000 }
  const own = { scope: 'user', origin: 'subscription', parsedWindow, ...limit } as CountedLimit
  return { limit: own, used, remaining: 0, resetsAt }
}

test('the message of an exhausted limit gives its figures', async (t) => {
  const state = (used: number, kind: LimitKind = 'tokens', window = '1m') =>
    stateOf({ kind, window, limit: 100 }, used, now + 5_000)
  const denial = { allowed: false, code: 'token_limit_exceeded', retryAt: now + 5_000 } as const
  const at = toTimestamp(now + 5_000)
  for (const [refusing, more, message] of [
    [
      state(107),
      {},
      'The token limit of your subscription for this model is used up: ' +
        `107 of 100 tokens in 1m (subscription "premium", resets at ${at}). Please try again in 5s.`,
    ],
    [
      state(100, 'requests'),
      {},
      'The request limit of your subscription for this model is used up: ' +
        `100 of 100 requests in 1m (subscription "premium", resets at ${at}). Please try again in 5s.`,
    ],
    [
      state(100, 'concurrency', ''),
      { isBusy: true },
      '100 of your requests to this model are in progress, and your subscription allows ' +
        '100 at a time (subscription "premium"). Please try again in 5s.',
    ],
    [
      state(1, 'concurrency', ''),
      { isBusy: true },
      '1 of your requests to this model is in progress, and your subscription allows ' +
        '100 at a time (subscription "premium"). Please try again in 5s.',
    ],
    [
      state(107),
      { isBusy: true },
      'The rest of the token limit of your subscription for this model is held by your requests in ' +
        `progress: 107 of 100 tokens in 1m are used, 0 held (subscription "premium", resets at ${at}). ` +
        'Please try again in 5s.',
    ],
    [
      state(107),
      { grant: { ...grant, caller: { ...key, caps: {} } } },
      'The token limit of your subscription for this model is used up: ' +
        `107 of 100 tokens in 1m (resets at ${at}). Please try again in 5s.`,
    ],
  ] as const) {
    t.equal(denialMessage({ ...denial, refusing, grant, ...more } as Denial, now), message)
  }
})

/** By one limit that resets at the end of November in Zurich. */
function told(limit: Partial<CountedLimit>, used: ExactInt, more: Partial<Denial> = {}) {
  const parsedWindow = { every: 'month', zone: 'Europe/Zurich' } as const
  const retryAt = Date.UTC(2026, 10, 30, 23)
  const refusing = stateOf({ kind: 'cost', window: 'month', parsedWindow, ...limit }, used, retryAt)
  const code = limitCodes[refusing.limit.kind]
  return denialMessage({ allowed: false, code, retryAt, refusing, grant, ...more }, now)
}

const inZurich = 'resets at 2026-12-01T00:00:00+01:00 in Europe/Zurich'

test('a budget is named with its money, its zone, and whether others share it', async (t) => {
  const budget = { limitName: 'month', limit: 500n * 10n ** 9n }
  const used = 501_250_000_001n
  for (const [scope, origin, message] of [
    [
      'user',
      'subscription',
      `of your subscription is used up: 501.250000001 of 500 in a month (subscription "premium", ${inZurich}).`,
    ],
    [
      'group',
      'subscription',
      'of your subscription is used up: 501.250000001 of 500 in a month (subscription "premium", ' +
        `shared by your group, ${inZurich}).`,
    ],
    [
      'subscription',
      'subscription',
      'of your subscription is used up: 501.250000001 of 500 in a month (subscription "premium", ' +
        `shared by all users of your subscription, ${inZurich}).`,
    ],
    ['key', 'key', `of this API key is used up: 501.250000001 of 500 in a month (${inZurich}).`],
    [
      'model',
      'model',
      `of this model is used up: 100 % in a month (shared by all users of the model, ${inZurich}).`,
    ],
    [
      'organization',
      'tenant',
      `of this installation is used up: 100 % in a month (shared by your organization, ${inZurich}).`,
    ],
    [
      'installation',
      'tenant',
      `of this installation is used up: 100 % in a month (shared by all users of the installation, ${inZurich}).`,
    ],
  ] as const) {
    t.equal(told({ ...budget, scope, origin }, used), `The budget "month" ${message}`)
  }
  const pool = { ...budget, scope: 'group' } as const
  t.match(
    told(pool, used, { grant: { ...grant, pool: '' } }),
    'shared by the users whom your subscription names',
  )
  const capped = { ...grant, caller: { ...key, caps: {} } } as unknown as Grant
  t.notMatch(told(pool, used, { grant: capped }), /premium/, 'a key with caps is not told')
  const utc = { every: 'day', zone: 'UTC' } as const
  t.match(
    told({ ...budget, parsedWindow: utc }, used),
    'in a day (subscription "premium", resets at 2026-11-30T23:00:00Z)',
  )
})

test('a budget that resets within a minute says when to try again, for programs', async (t) => {
  const soon = { retryAt: now + 59_000 }
  t.match(told({ limit: 5 }, 5, soon), /\)\. Please try again in 59s\.$/)
  t.notMatch(told({ limit: 5 }, 5, { retryAt: now + 61_000 }), 'again')
})

test('the limit that is used up is named, not one whose rest is held', async (t) => {
  const held = stateOf({ kind: 'tokens', limit: 100, limitName: 'held' }, 0, now + 90_000).limit
  const spent = stateOf({ kind: 'tokens', limit: 100, limitName: 'spent' }, 0, now + 50_000).limit
  const hold = { ...emptyHold, admittedAt: now }
  const windows = [
    { used: 10, held: 90, resetsAt: now + 90_000 },
    { used: 100, held: 0, resetsAt: now + 50_000 },
  ]
  const limits = { ...grant, limits: [held, spent] }
  const denial = enforceHold(
    limits,
    hold,
    { outcome: 'spent', ceiling: 0, windows },
    5_000,
  ) as Denial
  t.match(
    denialMessage(denial, now),
    /token limit "spent" of .* is used up: 100 of 100 .* in 50s\.$/,
  )
})

test('what is only held, or too little, says so of each kind', async (t) => {
  const month = { parsedWindow: { every: 'month', zone: 'UTC' }, limitName: 'all' } as const
  const shared = { ...month, scope: 'installation', origin: 'tenant' } as const
  const busy = { isBusy: true, retryAt: now + 5_000 }
  t.equal(
    told({ ...shared, limit: 1_000 }, 999, busy),
    'The rest of the budget "all" of this installation is held by requests in progress: 99 % in a month are used, ' +
      'the rest is held (shared by all users of the installation, resets at 2026-11-30T23:00:00Z). Please try again in 5s.',
  )
  t.match(
    told({ ...month, limit: 2_000_000_000 }, 1_500_000_000, busy),
    /^The rest of the budget "all" of your subscription is held by your requests in progress: 1.5 of 2 in a month are used, 0 held/,
  )
  t.match(
    told({ ...month, limit: 1_000 }, 999, { needed: 20 }),
    /^The request may use more than is left of the budget "all"/,
  )
  for (const [kind, noun, unit] of [
    ['tokens', 'token limit', 'tokens'],
    ['input', 'input token limit', 'input tokens'],
    ['output', 'output token limit', 'output tokens'],
    ['requests', 'request limit', 'requests'],
  ] as const) {
    t.match(
      told({ ...month, kind, limit: 1_000 }, 1_000),
      `The ${noun} "all" of your subscription is used up: 1000 of 1000 ${unit} in a month (`,
    )
  }
  const five = { kind: 'concurrency', limit: 5, window: '', parsedWindow: { ms: 0 } } as const
  t.equal(
    told({ ...shared, ...five }, 5, busy),
    'The concurrency limit "all" of this installation is used up: 100 % (shared by all users of the installation). ' +
      'Please try again in 5s.',
  )
})

test('the limit without room is the one that refuses', async (t) => {
  const tokens = stateOf({ kind: 'tokens', limit: 1_000 }, 100, now + 50_000).limit
  const cost = stateOf({ kind: 'cost', limit: 1_000 }, 100, now + 90_000).limit
  const input = stateOf({ kind: 'input', limit: 100 }, 0, now + 90_000).limit
  const refused = (figures: readonly (readonly [used: number, held: number])[]) => {
    const of = { ...grant, limits: [tokens, cost, input].slice(0, figures.length) }
    const windows = figures.map(([used, held], i) => {
      return { used, held, resetsAt: now + (i + 1) * 45_000 }
    })
    const factors = { base: 0, perInput: 0.1, mostPerInput: 0.1, perOutput: 0.1, grain: 1 }
    const ofInput = { perInput: 1, mostPerInput: 1, perOutput: 0 }
    const counters = [
      counterOf(tokens, 'alice'),
      { ...counterOf(cost, 'alice'), factors },
      { ...counterOf(input, 'alice'), factors: { ...factors, ...ofInput } },
    ]
    const expected = { ...emptyHold.expected, input: 50, output: 50, least: 50 }
    const hold = { ...emptyHold, admittedAt: now, counters, expected }
    return enforceHold(of, hold, { outcome: 'busy', ceiling: 0, windows }, 5_000)
  }
  const busy = { isBusy: true, retryAt: now + 5_000 }
  t.match(
    refused([
      [500, 0],
      [900, 90],
    ]),
    { code: 'insufficient_quota', ...busy },
  )
  t.match(
    refused([
      [900, 95],
      [500, 90],
    ]),
    { code: 'token_limit_exceeded', ...busy },
  )
  t.match(
    refused([
      [990, 0],
      [995, 0],
    ]),
    { code: 'token_limit_exceeded', retryAt: now + 45_000 },
  )
  t.match(
    refused([
      [500, 0],
      [995, 0],
    ]),
    { code: 'insufficient_quota', retryAt: now + 90_000, needed: 50 },
  )
  const ofInput = [
    [500, 0],
    [500, 0],
  ] as const
  t.match(refused([...ofInput, [60, 0]]), { code: 'token_limit_exceeded', retryAt: now + 135_000 })
  t.match(refused([...ofInput, [50, 0]]), { retryAt: now + 45_000 }, 'input has room')
})
