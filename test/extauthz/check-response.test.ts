import { test } from 'tap'
import type { Denial, Grant } from '../../src/decide/decision.ts'
import { createTemplates } from '../../src/extauthz/allow-template.ts'
import { toCheckResponse } from '../../src/extauthz/check-response.ts'
import { type ErrorCode, errorBody } from '../../src/formats/errors.ts'
import type { KeyLimits } from '../../src/identity/rules/caller.ts'
import type { Dialect } from '../../src/operations/dialect.ts'
import { toCountedLimit, toCountedLimits } from '../../src/ratelimit/rules/counted-limits.ts'
import { limitStates } from '../../src/ratelimit/rules/limit.ts'
import { toPolicyField } from '../../src/ratelimit/rules/limit-headers.ts'
import { modelRef, snapshotOf } from '../support/documents.ts'
import { checkResponse, readDenial, structOf } from '../support/envoy-messages.ts'
import { readHead } from '../support/line-head.ts'

const now = Date.UTC(2026, 0, 1)
const model = snapshotOf(modelRef('small')).models.get('llm/small')
if (model === undefined) throw new Error('no model')
const grant: Grant = {
  allowed: true,
  caller: { by: 'key', user: 'ädä', groups: ['team-a'], keyId: 'id-1', subscription: 'basic' },
  model,
  cluster: 'model/llm/small',
  subscription: 'basic',
  limits: [],
  states: [],
  metered: true,
  uncounted: false,
  listing: false,
  owningGroup: undefined,
  payer: undefined,
  bodyNames: undefined,
  sentName: undefined,
  upstreamPath: '/v1/chat/completions?a=b',
}

const limits = toCountedLimits('basic', 'llm/small', [
  { limit: 100, window: '1m', windowMs: 60_000 },
  { limit: 900, window: '1h', windowMs: 3_600_000 },
])
const header = (key: string, value: string) => ({ header: { key, value }, append_action: 2 })

function deny(code: ErrorCode, more: Partial<Denial> = {}, dialect: Dialect = 'openai') {
  return readDenial(toCheckResponse({ allowed: false, code, ...more }, now, dialect))
}

const asked = { id: 'request-1', startedAt: now - 7 }

/** The metadata of an allow, and what its line says. */
function metadataOf(granted: Grant, dialect: Dialect = 'openai', templateOf = createTemplates()) {
  const bytes = toCheckResponse(granted, now, dialect, undefined, templateOf, asked)
  const { dynamic_metadata } = checkResponse.decode(bytes) as {
    dynamic_metadata: { fields: Record<string, { stringValue?: string }> }
  }
  const { fields } = dynamic_metadata
  return { fields, line: readHead(fields.line?.stringValue) }
}

test('an allow contains exactly what Envoy needs', async (t) => {
  const bytes = toCheckResponse(grant, now, 'openai', undefined, undefined, asked)
  t.strictSame(JSON.parse(JSON.stringify(checkResponse.decode(bytes))), {
    status: {},
    ok_response: {
      headers: [
        header('x-maas-subscription', 'basic'),
        header('x-tollgate-cluster', 'model/llm/small'),
        header('x-tollgate-path', '/v1/chat/completions?a=b'),
      ],
      headers_to_remove: ['authorization', 'x-api-key', 'proxy-authorization'],
    },
    dynamic_metadata: structOf({
      line: `{"start":${now - 7},"id":"request-1","by":"check","subscription":"basic","model":"llm/small","user":"ädä","key":"id-1"}`,
      metered: true,
    }),
  })
})

test('a request without an id has no line', async (t) => {
  const { dynamic_metadata } = checkResponse.decode(toCheckResponse(grant, now, 'openai'))
  t.strictSame(JSON.parse(JSON.stringify(dynamic_metadata)), structOf({ metered: true }))
})

test('what may be estimated says so to the script', async (t) => {
  const held = { ...{ bytes: 9, maxOutput: 5, choices: 1 }, admittedAt: 0, ceiling: Infinity }
  for (const estimate of [undefined, { input: 7, bytesPerToken: 4 }]) {
    const { fields, line } = metadataOf({ ...grant, held: { ...held, estimate } })
    t.match(fields.estimate, estimate && { boolValue: true })
    t.match(line, { estimate, held: { admittedAt: 0, bytes: 9 } })
  }
})

test('reports the age of cached data', async (t) => {
  const aged = checkResponse.decode(toCheckResponse(grant, now, 'openai', { keyAgeMs: 61_999 }))
  t.match(aged.ok_response, { response_headers_to_add: [header('x-tollgate-key-age', '61')] })
  const denied = readDenial(
    toCheckResponse({ allowed: false, code: 'model_not_allowed' }, now, 'openai', {
      keyAgeMs: 400,
    }),
  )
  t.equal(denied.headers['x-tollgate-key-age'], '0')
  t.notOk('x-tollgate-key-age' in deny('model_not_allowed').headers)
})

test('the key id is empty for identity tokens', async (t) => {
  const caller = { by: 'token', proof: { by: 'file' }, user: 'ada', groups: [] } as const
  const { fields, line } = metadataOf({ ...grant, caller, metered: false })
  t.match(fields, { metered: { boolValue: false } })
  t.match(line, { user: 'ada', keyId: undefined })
})

test('what is metered only if it reports usage says so to the script', async (t) => {
  const counted = { ...grant, metered: false, meteredIfReported: true, payer: 'team-a' }
  const templateOf = createTemplates()
  t.match(metadataOf({ ...grant, metered: false, payer: 'team-a' }, 'anthropic', templateOf), {
    ...{ fields: { metered: { boolValue: false } }, line: { payer: undefined } },
  })
  t.match(metadataOf(counted, 'anthropic', templateOf), {
    ...{ fields: { metered: { stringValue: 'if_reported' } }, line: { payer: 'team-a' } },
  })
})

test('an id that has to be escaped is told as it is', async (t) => {
  for (const keyId of ['"', 'a\\b', 'line\nbreak', 'ä']) {
    const caller = { ...grant.caller, keyId } as Grant['caller']
    t.match(metadataOf({ ...grant, caller }).line, { keyId })
  }
})

test('an allow contains no secrets and no groups', async (t) => {
  const bytes = toCheckResponse(grant, now, 'openai').toString('latin1')
  t.notMatch(bytes, /team-a|sk-/)
})

test('each denial has its status, code and body', async (t) => {
  for (const [code, grpc, http] of [
    ['invalid_body', 3, 400],
    ['model_ambiguous', 3, 400],
    ['credential_invalid', 16, 401],
    ['model_not_allowed', 7, 403],
    ['subscription_not_allowed', 7, 403],
    ['not_found', 5, 404],
    ['token_limit_exceeded', 8, 429],
    ['internal', 13, 500],
    ['store_unavailable', 14, 503],
    ['counters_unavailable', 14, 503],
    ['model_unavailable', 14, 503],
    ['body_too_large', 13, 413],
  ] as const) {
    const denial = deny(code)
    t.match(denial, { grpc, http, headers: { 'content-type': 'application/json' } }, code)
    t.strictSame(denial.body, errorBody(code))
  }
})

test('a denial overwrites headers and contains no OK response', async (t) => {
  const bytes = toCheckResponse({ allowed: false, code: 'model_not_allowed' }, now, 'openai')
  const { status, denied_response, ok_response } = checkResponse.decode(bytes) as Record<
    string,
    never
  >
  t.match(status, { code: 7 })
  t.notOk(ok_response)
  t.match(denied_response, { headers: [{ append_action: 2 }, { append_action: 2 }] })
})

const noRetry = { 'x-should-retry': 'false' }

test('denials carry only the headers of their code', async (t) => {
  const json = { 'content-type': 'application/json' }
  for (const [code, more, headers] of [
    ['credential_invalid', {}, { 'www-authenticate': 'Bearer', ...noRetry }],
    [
      'credential_invalid',
      { detail: { about: 'credential', reason: 'It has "expired" é.' } },
      {
        'www-authenticate': 'Bearer error="invalid_token", error_description="It has ?expired? ?."',
        ...noRetry,
      },
    ],
    ['store_unavailable', {}, { 'retry-after': '2' }],
    ['counters_unavailable', {}, { 'retry-after': '2' }],
    ['model_unavailable', {}, { 'retry-after': '2' }],
    ['not_found', {}, noRetry],
    ['invalid_body', {}, {}],
    ['internal', {}, {}],
    ['model_not_allowed', {}, { 'x-ext-auth-reason': 'unauthorized', ...noRetry }],
    [
      'subscription_not_allowed',
      { selection: 'access_denied' },
      { 'x-ext-auth-reason': 'access_denied', ...noRetry },
    ],
    [
      'subscription_not_allowed',
      { selection: 'multiple_subscriptions' },
      { 'x-ext-auth-reason': 'multiple_subscriptions', ...noRetry },
    ],
    ['token_limit_exceeded', { retryAt: now + 5_000 }, { 'retry-after': '5' }],
  ] as const) {
    t.strictSame(deny(code, more).headers, { ...json, ...headers }, code)
  }
})

const unused = { used: 0, resetsAt: now + 3_600_000 }

test('an allow reports the remaining tokens', async (t) => {
  const counters = [{ used: 40, resetsAt: now + 30_000 }, unused]
  const states = limitStates(limits, counters, now)
  for (const [dialect, own] of [
    [
      'openai',
      [
        header('x-ratelimit-limit-tokens', '100'),
        header('x-ratelimit-remaining-tokens', '60'),
        header('x-ratelimit-reset-tokens', '30s'),
      ],
    ],
    [
      'anthropic',
      [
        header('anthropic-ratelimit-tokens-limit', '100'),
        header('anthropic-ratelimit-tokens-remaining', '60'),
        header('anthropic-ratelimit-tokens-reset', '2026-01-01T00:00:30Z'),
      ],
    ],
  ] as const) {
    const bytes = toCheckResponse({ ...grant, limits, states }, now, dialect)
    const { ok_response } = checkResponse.decode(bytes)
    t.match(ok_response, {
      headers: { length: 3 },
      response_headers_to_add: [
        ...own,
        header('ratelimit-policy', '"1m";q=100;w=60;qu="tokens", "1h";q=900;w=3600;qu="tokens"'),
        header('ratelimit', '"1m";r=60;t=30, "1h";r=900;t=3600'),
      ],
    })
  }
})

test('a denial reports the remaining tokens', async (t) => {
  const retryAt = now + 30_000
  const states = limitStates(limits, [{ used: 120, resetsAt: retryAt }, unused], now)
  const { headers } = deny('token_limit_exceeded', { retryAt, states })
  t.strictSame(headers, {
    'content-type': 'application/json',
    'retry-after': '30',
    'x-ratelimit-limit-tokens': '100',
    'x-ratelimit-remaining-tokens': '0',
    'x-ratelimit-reset-tokens': '30s',
    'ratelimit-policy': '"1m";q=100;w=60;qu="tokens", "1h";q=900;w=3600;qu="tokens"',
    ratelimit: '"1m";r=0;t=30, "1h";r=900;t=3600',
  })
})

test('Anthropic clients get errors in Anthropic’s format', async (t) => {
  for (const [code, http, type] of [
    ['credential_invalid', 401, 'authentication_error'],
    ['model_not_allowed', 404, 'not_found_error'],
    ['subscription_not_allowed', 403, 'permission_error'],
    ['token_limit_exceeded', 429, 'rate_limit_error'],
    ['store_unavailable', 503, 'overloaded_error'],
  ] as const) {
    const denial = deny(code, { detail: { about: 'path' } }, 'anthropic')
    const message = 'The path is malformed.'
    t.match(denial, { http, body: { type: 'error', error: { type, message } } })
  }
})

test('OpenAI clients learn when a limit resets in more than a minute', async (t) => {
  const errorAfter = (afterMs: number, dialect: 'openai' | 'anthropic') =>
    deny('token_limit_exceeded', { retryAt: now + afterMs }, dialect).body.error
  t.match(errorAfter(60_000, 'openai'), { type: 'tokens', code: 'rate_limit_exceeded' })
  t.notOk('resets_at' in errorAfter(60_000, 'openai'))
  t.match(errorAfter(86_400_000, 'openai'), {
    type: 'usage_limit_reached',
    code: 'rate_limit_exceeded',
    resets_at: now / 1_000 + 86_400,
  })
  t.match(errorAfter(60_500, 'openai'), { resets_at: Math.ceil((now + 60_500) / 1_000) })
  t.strictSame(Object.keys(errorAfter(86_400_000, 'anthropic')), ['type', 'message'])
})

test('sets x-should-retry: false if the wait is too long', async (t) => {
  const told = (afterMs: number) =>
    deny('token_limit_exceeded', { retryAt: now + afterMs }).headers['x-should-retry']
  t.equal(told(60_000), undefined)
  t.equal(told(60_001), 'false')
})

test('a budget is final unless it is free again within a minute', async (t) => {
  const told = (afterMs: number, more: Partial<Denial> = {}, dialect: Dialect = 'openai') =>
    deny('insufficient_quota', { retryAt: now + afterMs, ...more }, dialect)
  const late = told(60_001)
  t.equal(late.http, 429)
  t.match(late.body.error, {
    type: 'usage_limit_reached',
    code: 'insufficient_quota',
    resets_at: now / 1_000 + 61,
  })
  t.match(late.headers, { 'x-should-retry': 'false', 'retry-after': undefined })
  const soon = told(60_000)
  t.match(soon.body.error, { type: 'tokens', code: 'rate_limit_exceeded' })
  t.notOk('resets_at' in soon.body.error)
  t.match(soon.headers, { 'x-should-retry': undefined, 'retry-after': '60' })
  const busy = told(30_000, { isBusy: true })
  t.match(busy.body.error, { type: 'tokens', code: 'rate_limit_exceeded' })
  t.match(busy.headers, { 'x-should-retry': 'true', 'retry-after': '30' })
  const { http, body, headers } = told(90_000, {}, 'anthropic')
  t.equal(http, 429)
  t.match(body.error, { type: 'rate_limit_error' })
  t.match(headers, { 'x-should-retry': 'false', 'retry-after': undefined })
})

test('a response with budgets alone has their headers', async (t) => {
  const window = { every: 'day', zone: 'UTC' } as const
  const place = { resource: 'basic', whose: { subscription: 'basic', organization: '' } }
  const budget = (origin: 'subscription' | 'tenant') =>
    toCountedLimit(
      {
        ...{ name: 'day', of: 'cost', per: 'user', limit: 10 ** 10, window: 'day', windowMs: 0 },
        ...{ models: undefined, enforce: true },
      },
      window,
      { ...place, origin },
    )
  const added = (of: typeof limits, own?: Partial<KeyLimits>) => {
    const states = limitStates(
      of,
      of.map(() => ({ used: 1, resetsAt: now + 90_000 })),
      now,
    )
    const keyLimits = own as KeyLimits | undefined
    const bytes = toCheckResponse({ ...grant, keyLimits, states }, now, 'openai')
    const { ok_response } = checkResponse.decode(bytes) as {
      ok_response: { response_headers_to_add?: { header: { key: string; value: string } }[] }
    }
    return ok_response.response_headers_to_add?.map(
      ({ header: { key, value } }) => `${key}: ${value}`,
    )
  }
  const own = [
    'x-tollgate-budget-limit: 10',
    'x-tollgate-budget-remaining: 9.999999999',
    'x-tollgate-budget-reset: 2026-01-01T00:01:30Z',
  ]
  t.strictSame(added([budget('subscription')]), own)
  t.equal(added([budget('tenant')]), undefined)
  const ofKey = toCountedLimits(
    'basic',
    '@id-1',
    [{ limit: 5, window: '1h', windowMs: 3_600_000 }],
    {
      scope: 'key',
      key: { id: 'id-1', user: 'ädä' },
    },
  )
  const withKey = added([budget('subscription'), ...ofKey], { policies: toPolicyField(ofKey) })
  t.ok(withKey?.includes('ratelimit-policy: "key-1h";q=5;w=3600;qu="tokens"'))
  const withBudgetOfKey = added([...limits, { ...budget('subscription'), scope: 'key' }], {
    policies: '',
  })
  t.ok(withBudgetOfKey?.includes(`ratelimit-policy: ${toPolicyField(limits)}`))
})

test('retry-after is in whole seconds, at least one', async (t) => {
  for (const [afterMs, expected] of [
    [-5_000, '1'],
    [0, '1'],
    [1, '1'],
    [1_000, '1'],
    [1_001, '2'],
    [59_999, '60'],
    [60_000, '60'],
    [366 * 86_400_000, String(366 * 86_400)],
  ] as const) {
    t.equal(
      deny('token_limit_exceeded', { retryAt: now + afterMs }).headers['retry-after'],
      expected,
    )
  }
  t.equal(deny('token_limit_exceeded').headers['retry-after'], '1')
})

test('a message may contain any characters', async (t) => {
  const problem = 'Several "models" \n <b>ü😀</b>'
  const { message } = deny('invalid_body', { detail: { about: 'body', problem } }).body.error
  t.equal(message, `The request body is refused: ${problem}.`)
})
