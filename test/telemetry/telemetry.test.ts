import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import type { Caller } from '../../src/core/caller.ts'
import type { Decision, Grant } from '../../src/core/decide.ts'
import type { Usage } from '../../src/core/usage.ts'
import type { Sources } from '../../src/telemetry/readings.ts'
import { createTelemetry, type TelemetryOptions } from '../../src/telemetry/telemetry.ts'
import { passesPromtool, readScrape } from '../support/metrics.ts'

const keys = {
  entries: 3,
  hits: 4,
  misses: 5,
  unknownHits: 6,
  queries: 7,
  waiting: 1,
  refused: 2,
}
const sources: Sources = {
  models: () => 2,
  modelsWaiting: () => 5,
  subscriptions: () => 8,
  resourceProblems: () => 1,
  counters: () => 9,
  keys: () => keys,
}

function start(t: Test, options: Partial<TelemetryOptions> = {}) {
  const telemetry = createTelemetry({ sources, version: '1.2.3', ...options })
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

const counted = (tokens: number) => ({ tokens, unusable: false })
const unusable = { tokens: undefined, unusable: true }
const failed = { tokens: undefined, unusable: false }

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

test('calls and tokens are told of by caller', async (t) => {
  const { onDecided, onSettled, read } = start(t)
  const ada = { user: 'ada', subscription: 'basic', model: 'llm/small' }
  onDecided(allowed('ada'))
  onDecided(allowed('ada'))
  onDecided(allowed('bob', 'more', 'llm/large'))
  onSettled(used('ada'), counted(40))
  onSettled(used('ada'), counted(2))
  onSettled(used('ada'), counted(0))
  const scrape = await read()
  t.equal(scrape.value('tollgate_calls_total', ada), 2)
  t.equal(scrape.value('tollgate_tokens_total', ada), 42)
  const bob = { user: 'bob', subscription: 'more', model: 'llm/large' }
  t.equal(scrape.value('tollgate_calls_total', bob), 1)
  t.equal(scrape.value('tollgate_tokens_total', bob), 0)
})

test('unusable usage is counted, failures are not', async (t) => {
  const { onSettled, read } = start(t)
  for (const status of [200, 201, 299]) onSettled(used('ada', { status }), unusable)
  for (const status of [0, 199, 300, 404, 500]) onSettled(used('ada', { status }), failed)
  onSettled(used('ada'), counted(0))
  const scrape = await read()
  t.equal(scrape.value('tollgate_usage_unusable_total', { model: 'llm/small' }), 3)
  t.strictSame(scrape.samples('tollgate_tokens_total'), [])
})

test('estimates and uncounted calls are told by model', async (t) => {
  const { onDecided, onSettled, read } = start(t)
  onSettled(used('ada'), { tokens: 7, unusable: true })
  onSettled(used('ada'), counted(40))
  onDecided({ ...allowed('ada'), uncounted: true } as Grant)
  onDecided(allowed('ada'))
  const scrape = await read()
  t.equal(scrape.value('tollgate_tokens_estimated_total', { model: 'llm/small' }), 7)
  t.equal(scrape.value('tollgate_uncounted_calls_total', { model: 'llm/small' }), 1)
  const ada = { user: 'ada', subscription: 'basic', model: 'llm/small' }
  t.equal(scrape.value('tollgate_tokens_total', ada), 47)
})

test('the number of series is bounded', async (t) => {
  const { onDecided, onSettled, read } = start(t, { mostSeries: 100 })
  for (let i = 0; i < 5_000; i += 1) {
    onDecided(allowed(`user-${i}`))
    onSettled(used(`user-${i}`), counted(10))
    onSettled(used('ada', { model: `llm/m${i}` }), unusable)
  }
  const scrape = await read()
  for (const [name, each] of [
    ['tollgate_calls_total', 1],
    ['tollgate_tokens_total', 10],
  ] as const) {
    t.equal(scrape.samples(name).length, 101)
    t.equal(scrape.value(name, { overflow: 'true' }), 4_900 * each)
    const sum = scrape.samples(name).reduce((total, { value }) => total + value, 0)
    t.equal(sum, 5_000 * each, 'nothing is lost')
  }
  t.equal(scrape.samples('tollgate_usage_unusable_total').length, 1_001)
})

test('ten thousand are told apart unless told', async (t) => {
  const { onDecided, read } = start(t)
  for (let i = 0; i < 10_010; i += 1) onDecided(allowed(`user-${i}`))
  t.equal((await read()).value('tollgate_calls_total', { overflow: 'true' }), 10)
})

test('quiet series make room after an hour', async (t) => {
  let now = 0
  const { onDecided, read } = start(t, { mostSeries: 1, monotonic: () => now })
  const callers = async () =>
    (await read()).samples('tollgate_calls_total').map(({ labels }) => labels.user)
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
  t.equal(atOnce(answer), answer, 'without a promise')
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

test('the parts are read when asked', async (t) => {
  let models = 2
  const { read } = start(t, { sources: { ...sources, models: () => models } })
  const first = await read()
  models = 3
  const second = await read()
  t.strictSame([first.value('tollgate_models'), second.value('tollgate_models')], [2, 3])
  for (const [name, value] of [
    ['tollgate_models_waiting', 5],
    ['tollgate_subscriptions', 8],
    ['tollgate_resource_problems', 1],
    ['tollgate_counters', 9],
    ['tollgate_key_cache_entries', 3],
    ['tollgate_key_cache_hits_total', 4],
    ['tollgate_key_cache_misses_total', 5],
    ['tollgate_key_cache_unknown_hits_total', 6],
    ['tollgate_key_store_queries_total', 7],
    ['tollgate_key_store_waiting', 1],
    ['tollgate_key_store_refused_total', 2],
  ] as const) {
    t.equal(second.value(name), value, name)
  }
  t.equal(second.value('tollgate_redis_away'), undefined, 'there is none')
  t.equal(second.value('tollgate_replicas'), undefined)
})

const revocations = {
  databaseAway: true,
  ageMs: 1_500,
  replicas: 3,
  confirmed: 5,
  pending: 1,
  lastMs: 12,
  silent: 1,
  replayed: 2,
  failing: true,
}

test('outages and revocations are told', async (t) => {
  const { read } = start(t, {
    sources: {
      ...sources,
      redis: { away: () => true, unflushed: () => 4, losses: () => 2 },
      revocations: () => revocations,
      journal: () => ({ lines: 70, skipped: 2, unreadBytes: 300, failing: true }),
    },
  })
  const scrape = await read()
  for (const [name, value] of [
    ['tollgate_redis_away', 1],
    ['tollgate_counters_unflushed', 4],
    ['tollgate_redis_losses_total', 2],
    ['tollgate_database_away', 1],
    ['tollgate_key_age_seconds', 1.5],
    ['tollgate_replicas', 3],
    ['tollgate_replicas_silent', 1],
    ['tollgate_revocation_propagation_seconds', 0.012],
    ['tollgate_revocations_replayed_total', 2],
    ['tollgate_revocation_log_failing', 1],
    ['tollgate_journal_lines_total', 70],
    ['tollgate_journal_skipped_total', 2],
    ['tollgate_journal_unread_bytes', 300],
    ['tollgate_journal_failing', 1],
  ] as const) {
    t.equal(scrape.value(name), value, name)
  }
  t.equal(scrape.value('tollgate_revocations_total', { state: 'confirmed' }), 5)
  t.equal(scrape.value('tollgate_revocations_total', { state: 'pending' }), 1)
})

test('no figure is no sample', async (t) => {
  const ageMs = Number.POSITIVE_INFINITY
  const { read } = start(t, {
    sources: { ...sources, revocations: () => ({ ...revocations, ageMs, lastMs: undefined }) },
  })
  const unknown = await read()
  t.equal(unknown.value('tollgate_key_age_seconds'), undefined)
  t.equal(unknown.value('tollgate_revocation_propagation_seconds'), undefined)
})

test('the process tells of itself', async (t) => {
  const { read } = start(t)
  const scrape = await read()
  t.ok((scrape.value('process_cpu_seconds_total') ?? 0) > 0)
  t.ok((scrape.value('process_resident_memory_bytes') ?? 0) > 1e6)
  const startedAt = scrape.value('process_start_time_seconds') ?? 0
  t.ok(startedAt > 1.6e9 && startedAt <= Date.now() / 1_000)
  t.equal(scrape.value('tollgate_build_info', { version: '1.2.3' }), 1)
})

test('labels of every kind are read back', async (t) => {
  const { onDecided, scrape } = start(t)
  const users = ['a"b', 'a\\b', 'a\nb', 'a\\nb', 'ä 日本', 'a,b="c"}', '', ' ', '#', '{']
  for (const user of users) onDecided(allowed(user))
  const text = await scrape()
  const shown = readScrape(text)
    .samples('tollgate_calls_total')
    .map(({ labels }) => labels.user)
  t.strictSame(shown, users)
  passesPromtool(t, text)
})

test('no label of ours but those promised', async (t) => {
  const { onDecided, onSettled, read } = start(t)
  onDecided(allowed('ada'))
  onSettled(used('ada'), unusable)
  const names = new Set<string>()
  for (const { samples } of (await read()).families.values()) {
    for (const each of samples.values()) {
      for (const { labels } of each) for (const name of Object.keys(labels)) names.add(name)
    }
  }
  t.strictSame([...names].sort(), ['decision', 'le', 'model', 'subscription', 'user', 'version'])
})

test('a part that cannot be read fails the scrape', async (t) => {
  const { scrape } = start(t, {
    sources: {
      ...sources,
      models: () => {
        throw new Error('no snapshot')
      },
    },
  })
  await t.rejects(scrape(), /cannot be read/)
})

test('a block of the event loop shows until it has been read', async (t) => {
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
