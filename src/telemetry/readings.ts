/** What is read from the parts of the service whenever somebody asks: name, meaning, source. */

import type { MetricData } from '@opentelemetry/sdk-metrics'
import type { IdentityFigures } from './identity-counts.ts'

/** The parts, as far as they are there; all figures are of the moment of the call. */
export interface Sources {
  readonly models: () => number
  /** Models that wait until Envoy has their cluster. */
  readonly modelsWaiting: () => number
  /** Models that can be reached past us, where that is known. */
  readonly modelsBypassed?: () => number
  readonly subscriptions: () => number
  readonly resourceProblems: () => number
  /** Counters held, in memory or in the local view. */
  readonly counters: () => number
  /** Where counters are shared. */
  readonly redis?: {
    readonly away: () => boolean
    /** Counters with tokens that Redis has not acknowledged. */
    readonly unflushed: () => number
    /** How often it was found to have lost its data. */
    readonly losses: () => number
  }
  readonly keys: () => KeyFigures
  /** Where workers answer Checks for this process. */
  readonly workers?: () => { readonly ready: number; readonly restarts: number }
  /** Lines of the audit trail that could not be written. */
  readonly auditLost?: () => number
  /** Histograms that parts keep themselves. */
  readonly histograms?: () => readonly MetricData[]
  /** The resources in force: how long they took to compile, and for how long they are; seconds. */
  readonly snapshot?: () => { readonly compileS: number; readonly ageS: number }
  /** Where somebody proves identity tokens. */
  readonly identity?: IdentityFigures
  /** Where revocations are followed. */
  readonly revocations?: () => RevocationFigures
  /** Where a usage journal is read. */
  readonly journal?: () => JournalFigures
}

/** Of the memory of keys: counts since the start, but for `entries` and `waiting`. */
export interface KeyFigures {
  readonly entries: number
  readonly hits: number
  readonly misses: number
  readonly unknownHits: number
  readonly queries: number
  readonly waiting: number
  readonly refused: number
}

/** Of the log of revocations, and of those who follow it. */
export interface RevocationFigures {
  readonly databaseAway: boolean
  /** Milliseconds since the database last confirmed what is remembered; Infinity before it did. */
  readonly ageMs: number
  /** From which age on what is remembered is believed no more. */
  readonly graceMs: number
  /** Processes that may be serving, this one included. */
  readonly replicas: number
  /** Of them, those that have not been heard of for five seconds. */
  readonly silent: number
  /** Revocations made here, by what their answers said. */
  readonly confirmed: number
  readonly pending: number
  /** How long the last confirmation took. */
  readonly lastMs: number | undefined
  /** Keys that a restored database had as active again, revoked again by this process. */
  readonly replayed: number
  /** Whether REVOCATION_LOG_DIR cannot be written. */
  readonly failing: boolean
}

/** Of the usage journal, as far as this process reads it. */
export interface JournalFigures {
  readonly lines: number
  readonly skipped: number
  readonly unreadBytes: number
  /** Whether Envoy's file is missing, or does not grow though it should. */
  readonly failing: boolean
}

/** One figure, or one for each value of a label. */
export interface Reading {
  /** A counter never goes down; its name gets `_total` when it is shown. */
  readonly kind: 'counter' | 'gauge'
  readonly name: string
  readonly help: string
  readonly unit?: string
  readonly label?: string
  /** undefined, or no finite number: there is nothing to show. */
  readonly read: () => number | undefined | ReadonlyMap<string, number>
}

/** The readings of these parts. */
export function readingsOf(sources: Sources): readonly Reading[] {
  const { redis, keys, revocations, journal } = sources
  const ofRedis: readonly Reading[] = redis === undefined ? [] : redisReadings(redis)
  const followed: readonly Reading[] =
    revocations === undefined ? [] : revocationReadings(revocations)
  const journaled: readonly Reading[] = journal === undefined ? [] : journalReadings(journal)
  return [
    gauge('tollgate_models', 'Models in force.', sources.models),
    gauge(
      'tollgate_models_waiting',
      'Models not yet as written, as Envoy does not have their cluster.',
      sources.modelsWaiting,
    ),
    ...(sources.modelsBypassed === undefined
      ? []
      : [
          gauge(
            'tollgate_models_bypassed',
            'Models whose HTTPRoute hangs on a Gateway other than GATEWAY_INTERNAL.',
            sources.modelsBypassed,
          ),
        ]),
    gauge('tollgate_subscriptions', 'Subscriptions in force.', sources.subscriptions),
    gauge(
      'tollgate_resource_problems',
      'What is wrong in the resource documents.',
      sources.resourceProblems,
    ),
    ...(sources.snapshot === undefined ? [] : snapshotReadings(sources.snapshot)),
    gauge(
      'tollgate_workers',
      'Processes that answer Checks and are ready.',
      () => sources.workers?.().ready ?? 1,
    ),
    counter(
      'tollgate_worker_restarts',
      'Workers that ended by themselves and were started again.',
      () => sources.workers?.().restarts ?? 0,
    ),
    gauge('tollgate_counters', 'Token counters held by this process.', sources.counters),
    ...ofRedis,
    gauge('tollgate_key_cache_entries', 'API keys remembered.', () => keys().entries),
    counter('tollgate_key_cache_hits', 'Keys known from memory.', () => keys().hits),
    counter(
      'tollgate_key_cache_misses',
      'Keys that had to be looked up, or were refused.',
      () => keys().misses,
    ),
    counter(
      'tollgate_key_cache_unknown_hits',
      'Keys known from memory to be unknown.',
      () => keys().unknownHits,
    ),
    counter('tollgate_key_store_queries', 'Look-ups sent to the key store.', () => keys().queries),
    gauge(
      'tollgate_key_store_waiting',
      'Keys that wait to be looked up, or are being so.',
      () => keys().waiting,
    ),
    counter(
      'tollgate_key_store_refused',
      'Keys not looked up because too many were waiting.',
      () => keys().refused,
    ),
    counter(
      'tollgate_audit_lost',
      'Lines of the audit trail that could not be written.',
      sources.auditLost ?? (() => 0),
    ),
    ...(sources.identity ? [accessReviews(sources.identity)] : []),
    ...followed,
    ...journaled,
  ]
}

function accessReviews({ accessReviews }: IdentityFigures): Reading {
  const help = 'Answers of the cluster on who administers: allowed, denied, failed.'
  return { ...counter('tollgate_access_reviews', help, () => accessReviews), label: 'result' }
}

function snapshotReadings(read: NonNullable<Sources['snapshot']>): readonly Reading[] {
  return [
    seconds(
      'tollgate_snapshot_compile_seconds',
      'How long the resources in force took to compile.',
      () => read().compileS * 1_000,
    ),
    seconds(
      'tollgate_snapshot_age_seconds',
      'For how long these resources have been in force.',
      () => read().ageS * 1_000,
    ),
  ]
}

function redisReadings(redis: NonNullable<Sources['redis']>): readonly Reading[] {
  return [
    gauge('tollgate_redis_away', '1 while Redis fails to answer or to write.', () =>
      Number(redis.away()),
    ),
    gauge(
      'tollgate_counters_unflushed',
      'Token counters with tokens that Redis has not acknowledged.',
      redis.unflushed,
    ),
    counter(
      'tollgate_redis_losses',
      'Times that Redis, or a shard of it, was found to have lost its data.',
      redis.losses,
    ),
  ]
}

function revocationReadings(figures: () => RevocationFigures): readonly Reading[] {
  return [
    gauge('tollgate_database_away', '1 while the database of API keys is out of reach.', () =>
      Number(figures().databaseAway),
    ),
    seconds(
      'tollgate_key_age_seconds',
      'Time since the database last confirmed which keys are revoked.',
      () => figures().ageMs,
    ),
    seconds(
      'tollgate_key_grace_seconds',
      'From which of these ages on remembered keys are refused.',
      () => figures().graceMs,
    ),
    gauge(
      'tollgate_replicas',
      'Processes that may be serving, this one included.',
      () => figures().replicas,
    ),
    gauge(
      'tollgate_replicas_silent',
      'Other processes that may be serving and have not been heard of for 5 seconds.',
      () => figures().silent,
    ),
    {
      ...counter('tollgate_revocations', 'Revocations answered, by what the answer said.', () => {
        const { confirmed, pending } = figures()
        return new Map([
          ['confirmed', confirmed],
          ['pending', pending],
        ])
      }),
      label: 'state',
    },
    seconds(
      'tollgate_revocation_propagation_seconds',
      'How long the last confirmed revocation took to be known everywhere.',
      () => figures().lastMs,
    ),
    counter(
      'tollgate_revocations_replayed',
      'Revoked keys that the database had as active again, as after a restore, and was told of.',
      () => figures().replayed,
    ),
    gauge(
      'tollgate_revocation_log_failing',
      '1 while the revocation log outside of the database cannot be written.',
      () => Number(figures().failing),
    ),
  ]
}

function journalReadings(figures: () => JournalFigures): readonly Reading[] {
  return [
    counter(
      'tollgate_journal_lines',
      'Lines of the usage journal that this process has read.',
      () => figures().lines,
    ),
    counter(
      'tollgate_journal_skipped',
      'Lines of them that told nothing that can be counted.',
      () => figures().skipped,
    ),
    {
      ...gauge(
        'tollgate_journal_unread_bytes',
        'What of the usage journal was not read yet when last looked.',
        () => figures().unreadBytes,
      ),
      unit: 'bytes',
    },
    gauge(
      'tollgate_journal_failing',
      '1 while the usage journal is missing, or does not grow while answers end.',
      () => Number(figures().failing),
    ),
  ]
}

function gauge(name: string, help: string, read: () => number): Reading {
  return { kind: 'gauge', name, help, read }
}

function counter(name: string, help: string, read: Reading['read']): Reading {
  return { kind: 'counter', name, help, read }
}

function seconds(name: string, help: string, readMs: () => number | undefined): Reading {
  const read = () => {
    const milliseconds = readMs()
    return milliseconds === undefined ? undefined : milliseconds / 1_000
  }
  return { kind: 'gauge', name, help, unit: 'seconds', read }
}
