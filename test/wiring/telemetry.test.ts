import { test } from 'tap'
import { sourcesOf } from '../../src/wiring/telemetry.ts'

type Args = Parameters<typeof sourcesOf>

const limits = new Map([['llm/sim', [{ kind: 'tokens', window: '1m', limit: 100 }]]])
const models = new Map(['llm/sim', 'llm/other'].map((key) => [key, { resource: {} }]))
const counting = ['counting', { limits }] as const
const reserving = ['reserving', { admission: { overshoot: 0.25 }, limits }] as const

const stats = { lines: 70, skipped: 2, unreadBytes: 300, failing: true }
const sums = { stats, size: 9, isUnavailable: true, unflushed: 4, losses: 2 }

function read(config: object = {}, more: Record<string, unknown> = {}): Record<string, unknown> {
  const context = { config: config, audit: { lost: 6 } }
  const follower = { ageMs: 1_500, others: ['b', 'c'], silent: ['c'] }
  const cache = { entries: 3, hits: 4, misses: 5, unknownHits: 6 }
  const measured = {
    snapshot: () => ({ models, subscriptions: new Map([counting, reserving]) }),
    problems: () => ['one'],
    endingSoon: () => 12,
    modelsWaiting: () => 5,
    degraded: () => ['kubernetes'],
    published: () => ({ compileS: 0.5, ageS: 40 }),
    counters: () => ({ sums }),
    keys: { stats: () => ({ ...cache, queries: 7, waiting: 1, refused: 2 }) },
    follower: { state: () => 'unavailable', stats: () => follower },
    propagation: { stats: () => ({ confirmed: 5, pending: 1, lastMs: 12 }) },
    keeper: { stats: () => ({ replayed: 2, failing: true }) },
    identity: { accessReviews: new Map([['allowed', 3]]) },
    ...more,
  }
  const sources = sourcesOf(context as unknown as Args[0], measured as unknown as Args[1])
  return Object.fromEntries(Object.entries(sources).map(([name, one]) => [name, one()]))
}

test('the process that writes for its gateway has the figures of its table', async (t) => {
  const stats = {
    ...{ isOpen: true, records: { used: 3, of: 9 }, bytes: 512, leaseAgeMs: 150 },
    ...{ published: 7, withdrawn: 4, unplaced: 1 },
  }
  const shown = (table: object) =>
    Object.entries(read({}, { table })).filter(
      ([name, figure]) => name.startsWith('tollgate_table_') && !Number.isNaN(figure),
    )
  t.strictSame(Object.fromEntries(shown({ isOn: true, stats: () => stats })), {
    ...{ tollgate_table_open: true, tollgate_table_records: 3, tollgate_table_room_records: 9 },
    ...{ tollgate_table_size_bytes: 512, tollgate_table_lease_age_seconds: 0.15 },
    ...{ tollgate_table_published: 7, tollgate_table_withdrawn: 4, tollgate_table_unplaced: 1 },
  })
  t.ok(shown({ isOn: true, stats: () => undefined }).every(([, figure]) => figure === undefined))
  t.strictSame(shown({ isOn: false, stats: () => undefined }), [])
})

test('every part has metrics', async (t) => {
  const config = { usageJournal: '/journal', redisUrl: 'redis:', keyCacheOutageGraceMs: 900_000 }
  const ledger = { stats: { failing: true, gaps: 3, archiveFailing: true } }
  t.strictSame(read(config, { ledger }), {
    tollgate_models: 2,
    tollgate_models_waiting: 5,
    tollgate_subscriptions: 2,
    tollgate_overshoot_bound_tokens: 25,
    tollgate_counters: 9,
    tollgate_journal_lines: 70,
    tollgate_journal_skipped: 2,
    tollgate_journal_unread_bytes: 300,
    tollgate_journal_failing: true,
    tollgate_redis_away: true,
    tollgate_counters_unflushed: 4,
    tollgate_redis_losses: 2,
    tollgate_resource_problems: 1,
    tollgate_resources_failing: true,
    tollgate_snapshot_compile_seconds: 0.5,
    tollgate_snapshot_age_seconds: 40,
    tollgate_key_cache_entries: 3,
    tollgate_keys_ending_soon: 12,
    tollgate_key_cache_hits: 4,
    tollgate_key_cache_misses: 5,
    tollgate_key_cache_unknown_hits: 6,
    tollgate_key_store_queries: 7,
    tollgate_key_store_waiting: 1,
    tollgate_key_store_refused: 2,
    tollgate_audit_lost: 6,
    tollgate_access_reviews: new Map([['allowed', 3]]),
    tollgate_database_away: true,
    tollgate_key_age_seconds: 1.5,
    tollgate_key_grace_seconds: 900,
    tollgate_replicas: 3,
    tollgate_replicas_silent: 1,
    tollgate_revocations: new Map([
      ['confirmed', 5],
      ['pending', 1],
    ]),
    tollgate_revocation_propagation_seconds: 0.012,
    tollgate_revocations_replayed: 2,
    tollgate_revocation_log_failing: true,
    tollgate_ledger_failing: true,
    tollgate_archive_failing: true,
    tollgate_ledger_gaps: 3,
  })
})

test('a part that does not exist has no metrics', async (t) => {
  t.notOk(Object.keys(read()).some((name) => /redis|journal|counters/.test(name)))
  const propagation = { stats: () => ({ confirmed: 0, pending: 0, lastMs: undefined }) }
  t.strictSame(read({}, { propagation }).tollgate_revocation_propagation_seconds, NaN)
})
