/** The process's metrics, read from its parts. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bypassedModels } from '../core/bypass.ts'
import { packageRoot } from '../package-root.ts'
import type { Journal } from '../ratelimit/journal/journal.ts'
import type { IdentityFigures } from '../telemetry/identity-counts.ts'
import { histogramData } from '../telemetry/metric-data.ts'
import type { Sources } from '../telemetry/readings.ts'
import { createTelemetry, type Telemetry } from '../telemetry/telemetry.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import { type Keys, outageGraceMs } from './keys.ts'
import type { Resources } from './resources.ts'
import { part } from './stops.ts'
import type { Workers } from './workers/workers.ts'

export interface Measured extends Keys, Counters, Resources {
  readonly identity: IdentityFigures
  /** Called only after everything is built. */
  readonly journal: () => Journal | undefined
  readonly workers: () => Workers | undefined
}

/** The program's version. */
export function readVersion(): string {
  return JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')).version
}

export function openTelemetry(context: Context, measured: Measured): Telemetry {
  const { config, stops } = context
  const { snapshot, workers, identity, queries, histograms } = measured
  const telemetry = createTelemetry({
    version: readVersion(),
    usage: {
      users: { naming: config.metricsUser, key: config.metricsUserKey ?? '' },
      written: () => snapshot().tenant?.telemetry,
      attributionOf: (name) => snapshot().subscriptions.get(name)?.resource.attribution,
    },
    sources: sourcesOf(context, measured),
    histograms: () => [
      ...histograms(),
      histogramData(
        'tollgate_key_store_query_seconds',
        'How long the key store took to answer a look-up.',
        [{ attributes: {}, value: queries.read() }],
      ),
    ],
    proofs: identity.proofs,
    ...(config.workers > 1 && { others: async () => (await workers()?.figures()) ?? [] }),
  })
  stops.push(part('the metrics', () => telemetry.stop()))
  return telemetry
}

/** The readings of each part. */
export function sourcesOf(
  { config, audit, parent }: Pick<Context, 'config' | 'audit' | 'parent'>,
  measured: Omit<Measured, 'queries' | 'histograms'>,
): Sources {
  const { keys, follower, propagation, keeper, counters, redis, identity } = measured
  const { snapshot, problems, modelsWaiting, published } = measured
  const stats = (): Journal['stats'] => (measured.journal() as Journal).stats
  const workers = () => (config.workers > 1 ? (measured.workers()?.stats ?? noWorkers) : oneProcess)
  return {
    tollgate_models: () => snapshot().models.size,
    tollgate_models_waiting: modelsWaiting,
    ...(config.gatewayInternal && {
      tollgate_models_bypassed: () => bypassedModels(snapshot()).length,
    }),
    tollgate_subscriptions: () => snapshot().subscriptions.size,
    tollgate_resource_problems: () => problems().length,
    tollgate_snapshot_compile_seconds: () => published().compileS,
    tollgate_snapshot_age_seconds: () => published().ageS,
    tollgate_workers: () => workers().ready,
    tollgate_worker_restarts: () => workers().restarts,
    tollgate_counters: () => counters.size,
    ...(redis && {
      tollgate_redis_away: () => redis.unavailable,
      tollgate_counters_unflushed: () => redis.unflushed,
      tollgate_redis_losses: () => redis.losses,
    }),
    tollgate_key_cache_entries: () => keys.stats().entries,
    tollgate_key_cache_hits: () => keys.stats().hits,
    tollgate_key_cache_misses: () => keys.stats().misses,
    tollgate_key_cache_unknown_hits: () => keys.stats().unknownHits,
    tollgate_key_store_queries: () => keys.stats().queries,
    tollgate_key_store_waiting: () => keys.stats().waiting,
    tollgate_key_store_refused: () => keys.stats().refused,
    tollgate_audit_lost: () => audit.lost,
    tollgate_access_reviews: () => identity.accessReviews,
    tollgate_database_away: () => follower.state() === 'unavailable',
    tollgate_key_age_seconds: () => follower.stats().ageMs / 1_000,
    tollgate_key_grace_seconds: () => outageGraceMs(config) / 1_000,
    tollgate_replicas: () => follower.stats().others.length + 1,
    tollgate_replicas_silent: () => follower.stats().silent.length,
    tollgate_revocations() {
      const { confirmed, pending } = propagation.stats()
      return new Map(Object.entries({ confirmed, pending }))
    },
    tollgate_revocation_propagation_seconds: () => (propagation.stats().lastMs ?? NaN) / 1_000,
    tollgate_revocations_replayed: () => keeper.stats().replayed,
    tollgate_revocation_log_failing: () => keeper.stats().failing,
    // The process with the counters reads it.
    ...(config.usageJournal &&
      !parent && {
        tollgate_journal_lines: () => stats().lines,
        tollgate_journal_skipped: () => stats().skipped,
        tollgate_journal_unread_bytes: () => stats().unreadBytes,
        tollgate_journal_failing: () => stats().failing,
      }),
  }
}

const oneProcess = { ready: 1, restarts: 0 }
const noWorkers = { ready: 0, restarts: 0 }
