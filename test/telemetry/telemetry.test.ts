import { createHmac } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import type { Decision, Grant } from '../../src/decide/decision.ts'
import type { Caller } from '../../src/identity/rules/caller.ts'
import type { WrittenTelemetry } from '../../src/kinds/resources.ts'
import type { Sources } from '../../src/telemetry/readings.ts'
import { createTelemetry, type TelemetryOptions } from '../../src/telemetry/telemetry.ts'
import type { RequestOutcome } from '../../src/usage/rules/model-failure.ts'
import type { Usage } from '../../src/usage/rules/usage.ts'
import { passesPromtool, readScrape } from '../support/metrics.ts'

const sources: Sources = { tollgate_models: () => 2 }

/** Users are named in clear by default. */
interface Options extends Partial<Omit<TelemetryOptions, 'usage'>> {
  readonly usage?: Partial<TelemetryOptions['usage']>
}

function start(t: Test, { usage, ...options }: Options = {}) {
  const telemetry = createTelemetry({
    ...{ sources, version: '1.2.3', histograms: () => [], proofs: () => [] },
    limitRatios: async () => [],
    ...options,
    usage: { userKey: undefined, written() {}, attributionOf() {}, ...usage },
  })
  t.teardown(() => telemetry.stop())
  return {
    ...telemetry,
    read: async () => readScrape(await telemetry.scrape()),
  }
}

function allowed(user: string, subscription = 'basic', model = 'llm/small'): Decision {
  const caller: Caller = { by: 'token', proof: { by: 'file' }, user, groups: [] }
  return { allowed: true, caller, subscription, model: { key: model } } as unknown as Grant
}

function limited(user: string): Decision {
  const grant = allowed(user) as Grant
  return { allowed: false, code: 'token_limit_exceeded', grant }
}

function ended(more: Partial<RequestOutcome> = {}): RequestOutcome {
  return {
    model: 'llm/small',
    subscription: 'basic',
    requestId: '',
    status: 200,
    endedAt: 1_000_000,
    durationMs: 40,
    firstByteMs: undefined,
    failure: undefined,
    hasResponded: true,
    ...more,
  }
}

function used(user: string, more: Partial<Usage> = {}): Usage {
  return {
    user,
    subscription: 'basic',
    model: 'llm/small',
    status: 200,
    reported: new Map(),
    bytes: 0,
    ...more,
  }
}

const counted = (tokens: number) => ({ tokens, estimated: 0 })

test('decisions are counted by their outcome', async (t) => {
  const { onDecided, read } = start(t)
  const before = await read()
  t.equal(before.value('tollgate_checks_total', { decision: 'allowed' }), 0)
  for (let call = 0; call < 3; call += 1) onDecided(allowed('ada'))
  onDecided({ allowed: false, code: 'token_limit_exceeded' })
  onDecided({ allowed: false, code: 'internal' })
  const after = await read()
  for (const [decision, value] of [
    ['allowed', 3],
    ['token_limit_exceeded', 1],
    ['internal', 1],
    ['credential_invalid', 0],
  ] as const) {
    t.equal(after.value('tollgate_checks_total', { decision }), value, decision)
  }
  t.equal(after.families.get('tollgate_checks_total')?.type, 'counter')
})

test('the three counters show who used what', async (t) => {
  const { onDecided, onCounted, read } = start(t)
  onDecided(allowed('ada'))
  onDecided(allowed('ada'))
  onDecided(allowed('bob', 'more', 'llm/large'))
  onDecided({ ...allowed('ada'), listing: true } as Grant)
  onDecided(limited('ada'))
  onCounted(used('ada'), counted(40))
  onCounted(used('ada'), counted(70))
  const scrape = await read()
  const ada = { user: 'ada', subscription: 'basic' }
  t.strictSame(scrape.samples('authorized_hits_total'), [
    { labels: { ...ada, model: 'llm/small' }, value: 110 },
  ])
  t.strictSame(scrape.samples('authorized_calls_total'), [
    { labels: ada, value: 2 },
    { labels: { user: 'bob', subscription: 'more' }, value: 1 },
  ])
  t.strictSame(scrape.samples('limited_calls_total'), [{ labels: ada, value: 1 }])
  t.equal(
    scrape.value('tollgate_checks_total', { decision: 'allowed' }),
    4,
    'a list request is a check too',
  )
})

test('calls that no Check allowed count, too', async (t) => {
  const { onDecided, onAdmitted, read } = start(t)
  onDecided(allowed('ada'))
  onAdmitted(used('ada'))
  t.strictSame((await read()).samples('authorized_calls_total'), [
    { labels: { user: 'ada', subscription: 'basic' }, value: 2 },
  ])
})

test('counters without a value are not shown', async (t) => {
  const { onDecided, onEnded, read } = start(t)
  t.notOk([...(await read()).families.keys()].some((name) => /^(authorized|limited)_/.test(name)))
  onDecided(limited('ada'))
  const scrape = await read()
  t.strictSame(scrape.samples('authorized_calls_total'), [])
  t.strictSame(scrape.samples('authorized_hits_total'), [])
  onEnded(ended())
  t.equal((await read()).samples('authorized_request_duration_seconds_count').length, 1)
})

test('a long stream is counted in the right bucket', async (t) => {
  const { onEnded, read } = start(t)
  onEnded(ended({ durationMs: 30_040 }))
  onEnded(ended({ durationMs: 601_000, subscription: 'more' }))
  onEnded(ended({ durationMs: 99 }))
  const scrape = await read()
  const name = 'authorized_request_duration_seconds'
  const upTo = (le: string, subscription = 'basic') =>
    scrape.value(`${name}_bucket`, { subscription, le })
  t.strictSame(
    [upTo('0.1'), upTo('30'), upTo('60'), upTo('600'), upTo('600', 'more'), upTo('+Inf', 'more')],
    [1, 1, 2, 2, 0, 1],
  )
  t.equal(scrape.value(`${name}_sum`, { subscription: 'basic' }), 30.139)
})

test('five hundred subscriptions have durations of their own', async (t) => {
  const { onEnded, read } = start(t)
  for (let i = 0; i < 510; i += 1) onEnded(ended({ subscription: `s${i}` }))
  const counts = (await read()).samples('authorized_request_duration_seconds_count')
  t.equal(counts.length, 501)
  t.strictSame(counts.at(-1), { labels: { overflow: 'true' }, value: 10 })
})

test('models have metrics of their requests and responses', async (t) => {
  const { onDecided, onEnded, onUnusable, onCounted, read } = start(t)
  onDecided(allowed('ada'), 'llm/small')
  onDecided(limited('ada'), 'llm/small')
  onDecided({ allowed: false, code: 'model_not_allowed' })
  onDecided({ ...allowed('ada'), uncounted: true } as Grant, 'llm/small')
  const failure = { reason: 'timeout', detail: '' } as const
  onEnded(ended({ firstByteMs: 120, durationMs: 400 }))
  onEnded(ended({ status: 0, failure }))
  onUnusable('llm/small')
  onCounted(used('ada'), { tokens: 7, estimated: 7 })
  const scrape = await read()
  const model = 'llm/small'
  for (const [name, labels, value] of [
    ['tollgate_model_checks_total', { model, decision: 'allowed' }, 2],
    ['tollgate_model_checks_total', { model, decision: 'token_limit_exceeded' }, 1],
    ['tollgate_model_checks_total', { model: '', decision: 'model_not_allowed' }, 1],
    ['tollgate_model_responses_total', { model, code: '200' }, 1],
    ['tollgate_model_responses_total', { model, code: '0' }, 1],
    ['tollgate_model_failures_total', { model, reason: 'timeout' }, 1],
    ['tollgate_usage_unusable_total', { model }, 1],
    ['tollgate_tokens_estimated_total', { model }, 7],
    ['tollgate_uncounted_calls_total', { model }, 1],
    ['tollgate_model_first_byte_seconds_count', { model }, 1],
    ['tollgate_model_duration_seconds_count', { model }, 2],
  ] as const) {
    t.equal(scrape.value(name, labels), value, `${name} ${JSON.stringify(labels)}`)
  }
})

test('tokens are counted by type, as far as models report it', async (t) => {
  const { onCounted, read } = start(t)
  const reported = new Map([
    ['total_tokens', 30],
    ['prompt_tokens', 20],
    ['completion_tokens', 10],
    ['details_cached_tokens', 8],
  ])
  onCounted(used('ada', { reported }), counted(30))
  onCounted(used('ada'), counted(5))
  const model = 'llm/small'
  t.strictSame((await read()).samples('tollgate_model_tokens_total'), [
    { labels: { model, type: 'input' }, value: 20 },
    { labels: { model, type: 'cached' }, value: 8 },
    { labels: { model, type: 'output' }, value: 10 },
  ])
})

test('weighted tokens are told as limits count them', async (t) => {
  const { onCounted, read } = start(t)
  const reported = new Map([
    ['prompt_tokens', 20],
    ['completion_tokens', 10],
  ])
  onCounted(used('ada', { reported, weights: 'output=4000' }), counted(30))
  const labels = { model: 'llm/small', type: 'counted' }
  t.equal((await read()).value('tollgate_model_tokens_total', labels), 60)
})

test('the REST API has metrics by route', async (t) => {
  const { onApiResponse, read } = start(t)
  onApiResponse('/v1/api-keys', 'POST', 201, 12)
  onApiResponse('/v1/api-keys', 'POST', 400, 1)
  onApiResponse('', 'GET', 404, 1)
  const scrape = await read()
  const name = 'tollgate_api_requests_total'
  const labels = { route: '/v1/api-keys', method: 'POST', code: '201' }
  t.equal(scrape.value(name, labels), 1)
  t.equal(scrape.value(name, { route: '', method: 'GET', code: '404' }), 1)
  t.equal(scrape.value('tollgate_api_keys_created_total'), 1)
  const { route } = labels
  t.equal(scrape.value('tollgate_api_request_duration_seconds_count', { route }), 2)
})

test('a model cannot create an unlimited number of series', async (t) => {
  const { onEnded, read } = start(t)
  for (let status = 200; status < 900; status += 1) onEnded(ended({ status }))
  const responses = (await read()).samples('tollgate_model_responses_total')
  t.equal(responses.length, 31)
  t.strictSame(responses.at(-1), { labels: { model: 'llm/small', code: 'other' }, value: 670 })
})

test('users may be hashed or omitted', async (t) => {
  const key = 'the key of all replicas'
  for (const [captureUser, shown] of [
    [undefined, [{ user: '86d27fb3a3ee' }, { user: 'x' }]],
    [false, [{}]],
  ] as const) {
    const written = { ...unwritten, captureUser }
    const { onDecided, onCounted, read } = start(t, {
      usage: { userKey: key, written: () => written },
    })
    for (const user of ['ada', 'bob']) {
      onDecided(allowed(user))
      onDecided(limited(user))
      onCounted(used(user), counted(5))
    }
    const scrape = await read()
    for (const name of ['authorized_hits_total', 'authorized_calls_total', 'limited_calls_total']) {
      const found = scrape.samples(name)
      t.equal(found.length, shown.length, name)
      for (const { labels } of found) {
        if (captureUser === false) t.notOk('user' in labels)
        else t.match(labels.user, /^[0-9a-f]{12}$/)
      }
    }
    if (captureUser !== false) {
      const expected = createHmac('sha256', key).update('ada').digest('hex').slice(0, 12)
      t.equal(scrape.samples('authorized_calls_total')[0]?.labels.user, expected)
    }
  }
})

const unwritten = {
  enabled: undefined,
  captureOrganization: undefined,
  captureUser: undefined,
  captureGroup: undefined,
  captureModelUsage: undefined,
}

test('the Tenant chooses the labels and takes precedence', async (t) => {
  let written: WrittenTelemetry | undefined = { ...unwritten, captureUser: false }
  const { onDecided, onCounted, onEnded, read } = start(t, {
    usage: {
      userKey: undefined,
      written: () => written,
      attributionOf: (subscription) =>
        subscription === 'basic'
          ? { organizationId: 'acme', costCenter: 'cc "1"', labels: {} }
          : undefined,
    },
  })
  const use = (subscription = 'basic') => {
    onDecided({ ...allowed('ada', subscription), owningGroup: 'red' } as Grant)
    onCounted(used('ada', { subscription, group: 'red' }), counted(5))
    onEnded(ended({ subscription }))
  }
  const labelsOf = async (name: string) => (await read()).samples(name).map(({ labels }) => labels)
  use()
  t.strictSame(await labelsOf('authorized_calls_total'), [{ subscription: 'basic' }])
  written = { ...unwritten, captureUser: true, captureModelUsage: false }
  t.strictSame(await labelsOf('authorized_calls_total'), [], 'counting has restarted')
  use()
  t.strictSame(await labelsOf('authorized_hits_total'), [{ user: 'ada', subscription: 'basic' }])
  written = { ...unwritten, captureOrganization: true, captureGroup: true, captureUser: false }
  use()
  use('other')
  const added = { organization_id: '', cost_center: '', group: 'red' }
  t.strictSame(await labelsOf('authorized_calls_total'), [
    { subscription: 'basic', ...added, organization_id: 'acme', cost_center: 'cc "1"' },
    { subscription: 'other', ...added },
  ])
  written = { ...written }
  t.equal(
    (await labelsOf('authorized_calls_total')).length,
    2,
    'the same labels again change nothing',
  )
  t.strictSame((await labelsOf('authorized_request_duration_seconds_count'))[0], {
    subscription: 'basic',
  })
  written = { ...unwritten, enabled: false }
  use()
  t.strictSame(await labelsOf('authorized_hits_total'), [])
})

test('the number of series is bounded', async (t) => {
  const { onDecided, onCounted, onUnusable, read } = start(t, { usage: { maxSeries: 100 } })
  for (let i = 0; i < 5_000; i += 1) {
    onDecided(allowed(`user-${i}`))
    onDecided(limited(`user-${i}`))
    onCounted(used(`user-${i}`), counted(10))
    onUnusable(`llm/m${i}`)
  }
  const scrape = await read()
  for (const [name, each] of [
    ['authorized_calls_total', 1],
    ['limited_calls_total', 1],
    ['authorized_hits_total', 10],
  ] as const) {
    t.equal(scrape.samples(name).length, 101)
    t.equal(scrape.value(name, { overflow: 'true' }), 4_900 * each)
    const sum = scrape.samples(name).reduce((total, { value }) => total + value, 0)
    t.equal(sum, 5_000 * each, 'nothing is lost')
  }
  t.equal(scrape.samples('tollgate_usage_unusable_total').length, 1_001)
})

test('with fifty thousand users the scrape is still complete', async (t) => {
  const { onDecided, onCounted, scrape } = start(t)
  for (let i = 0; i < 50_000; i += 1) {
    onDecided(allowed(`user-${i}`))
    onCounted(used(`user-${i}`), counted(2))
  }
  const shown = readScrape(await scrape())
  t.equal(shown.samples('authorized_hits_total').length, 10_001)
  t.equal(shown.value('authorized_hits_total', { overflow: 'true' }), 80_000)
  t.equal(shown.value('authorized_calls_total', { overflow: 'true' }), 40_000)
})

test('the default bound is ten thousand series', async (t) => {
  const { onDecided, read } = start(t)
  for (let i = 0; i < 10_010; i += 1) onDecided(allowed(`user-${i}`))
  t.equal((await read()).value('authorized_calls_total', { overflow: 'true' }), 10)
})

test('unused series are removed after an hour if room is needed', async (t) => {
  let now = 0
  const { onDecided, read } = start(t, { usage: { maxSeries: 1 }, monotonic: () => now })
  const callers = async () =>
    (await read()).samples('authorized_calls_total').map(({ labels }) => labels.user)
  onDecided(allowed('ada'))
  for (let hour = 0; hour < 2; hour += 1) {
    now += 3_600_000
    t.strictSame(await callers(), ['ada'])
  }
  onDecided(allowed('bob'))
  t.strictSame(await callers(), ['bob'])
})

test('the durations of Check are observed', async (t) => {
  let now = 0
  const { timed, read } = start(t, { monotonic: () => now })
  const answer = Buffer.from('answer')
  const atOnce = timed((bytes) => {
    now += 0.02
    return bytes
  })
  t.equal(atOnce(answer), answer, 'synchronously, without a promise')
  const later = timed(async (bytes) => {
    now += 30
    return bytes
  })
  t.equal(await later(answer), answer)
  const failing = timed(() => Promise.reject(new Error('no')))
  await t.rejects(failing(answer) as Promise<Buffer>, /no/)
  const scrape = await read()
  const name = 'tollgate_check_duration_seconds'
  t.equal(scrape.families.get(name)?.type, 'histogram')
  t.equal(scrape.value(`${name}_count`), 3)
  t.ok(Math.abs((scrape.value(`${name}_sum`) ?? 0) - 0.030_02) < 1e-9)
  const upTo = (le: string) => scrape.value(`${name}_bucket`, { le })
  t.strictSame(
    [upTo('0.00001'), upTo('0.000025'), upTo('0.025'), upTo('0.05'), upTo('+Inf')],
    [1, 2, 2, 3, 3],
  )
})

test('sources are read at each scrape', async (t) => {
  let models = 2
  const { read } = start(t, { sources: { tollgate_models: () => models } })
  const first = await read()
  models = 3
  const second = await read()
  t.strictSame([first.value('tollgate_models'), second.value('tollgate_models')], [2, 3])
  t.equal(second.value('tollgate_redis_away'), undefined, 'has no source')
})

test('flags, labels and missing values are shown correctly', async (t) => {
  const { read } = start(t, {
    sources: {
      tollgate_redis_away: () => true,
      tollgate_database_away: () => false,
      tollgate_key_age_seconds: () => Number.POSITIVE_INFINITY,
      tollgate_overshoot_bound_tokens: () => Number.POSITIVE_INFINITY,
      tollgate_revocation_propagation_seconds: () => Number.NaN,
      tollgate_resource_problems: () => undefined,
      tollgate_journal_lines: () => 70,
      tollgate_journal_unread_bytes: () => 300,
      tollgate_revocations: () => new Map([['confirmed', 5]]),
    },
  })
  const scrape = await read()
  const value = scrape.value
  t.strictSame([value('tollgate_redis_away'), value('tollgate_database_away')], [1, 0])
  t.equal(value('tollgate_key_age_seconds'), undefined)
  t.equal(value('tollgate_overshoot_bound_tokens'), Infinity, 'without a bound')
  t.equal(value('tollgate_revocation_propagation_seconds'), undefined)
  t.equal(value('tollgate_resource_problems'), undefined)
  t.equal(value('tollgate_journal_lines_total'), 70)
  t.equal(value('tollgate_journal_unread_bytes'), 300)
  t.equal(value('tollgate_revocations_total', { state: 'confirmed' }), 5)
  t.equal(scrape.families.get('tollgate_journal_lines_total')?.type, 'counter')
  t.equal(scrape.families.get('tollgate_redis_away')?.type, 'gauge')
})

test('the process reports its own figures', async (t) => {
  const { read } = start(t)
  const scrape = await read()
  t.ok((scrape.value('process_cpu_seconds_total') ?? 0) > 0)
  t.ok((scrape.value('process_resident_memory_bytes') ?? 0) > 1e6)
  const startedAt = scrape.value('process_start_time_seconds') ?? 0
  t.ok(startedAt > 1.6e9 && startedAt <= Date.now() / 1_000)
  t.equal(scrape.value('tollgate_build_info', { version: '1.2.3' }), 1)
})

test('labels with any characters can be read back', async (t) => {
  const { onDecided, scrape } = start(t)
  const users = [
    ...[
      'a"b',
      'a\\b',
      'a\nb',
      'a\\nb',
      'ä 日本',
      'a,b="c"}',
      '',
      ' ',
      '#',
      '{',
      'a\r\n',
      'a\u2028b',
    ],
    ...['\u202eadmin', '\u200fא', 'x'.repeat(1_024), '__proto__'],
  ]
  for (const user of users) onDecided(allowed(user))
  const text = await scrape()
  const shown = readScrape(text)
    .samples('authorized_calls_total')
    .map(({ labels }) => labels.user)
  t.strictSame(shown, users)
  passesPromtool(t, text)
})

test('we use only the documented labels', async (t) => {
  const { onDecided, onEnded, onUnusable, onCounted, read } = start(t)
  onDecided(allowed('ada'), 'llm/small')
  onDecided(limited('ada'))
  onUnusable('llm/small')
  onCounted(used('ada'), counted(3))
  onEnded(ended({ failure: { reason: 'dns', detail: '' } }))
  const names = new Set<string>()
  for (const { samples } of (await read()).families.values()) {
    for (const each of samples.values()) {
      for (const { labels } of each) for (const name of Object.keys(labels)) names.add(name)
    }
  }
  t.strictSame([...names].sort(), [
    ...['code', 'decision', 'le', 'model', 'reason', 'subscription', 'user', 'version'],
  ])
})

test('a part that cannot be read fails the scrape', async (t) => {
  const { scrape } = start(t, {
    sources: {
      ...sources,
      tollgate_models: () => {
        throw new Error('no snapshot')
      },
    },
  })
  await t.rejects(scrape(), /cannot be read/)
})

test('a block of the event loop is shown at the next scrape only', async (t) => {
  const { read } = start(t)
  const max = async () => (await read()).value('nodejs_eventloop_lag_max_seconds') ?? 0
  await delay(100)
  const until = performance.now() + 500
  while (performance.now() < until);
  await delay(100)
  const blocked = await max()
  t.ok(blocked > 0.4 && blocked < 60, `${blocked} s`)
  await delay(100)
  t.ok((await max()) < blocked)
})
