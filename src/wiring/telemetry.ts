/** The process's metrics, read from its parts. */

import { bypassedModels } from '../cluster/rules/bypass.ts'
import { maxOvershoot } from '../cluster/rules/overshoot.ts'
import type { JournalSums } from '../ratelimit/sums/journal-sums.ts'
import { readVersion } from '../runtime/package-root.ts'
import { timedStop } from '../runtime/stops.ts'
import type { ProcessTable } from '../table/process-table.ts'
import type { IdentityFigures } from '../telemetry/identity-counts.ts'
import { soleHistogram } from '../telemetry/metric-data.ts'
import type { Sources } from '../telemetry/readings.ts'
import { createTelemetry, type Telemetry } from '../telemetry/telemetry.ts'
import type { Ledger } from '../usage/ledger/ledger.ts'
import { createLimitRatios } from '../usage/limit-ratios.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import { type Keys, outageGraceMs } from './keys.ts'
import type { Resources } from './resources.ts'

interface Measured extends Keys, Resources {
  readonly identity: IdentityFigures
  readonly ledger?: Pick<Ledger, 'stats'> | undefined
  /** Undefined if there is none. */
  readonly table?: Pick<ProcessTable, 'isOn' | 'stats'>
  /** The number of keys about to expire, or undefined before the first count. */
  readonly endingSoon: () => number | undefined
  /** Called only after everything is built. */
  readonly counters: () => Counters
}

export function openTelemetry(context: Context, measured: Measured): Telemetry {
  const { config, stops, clock } = context
  const { snapshot, identity, queries, counters, increases } = measured
  const telemetry = createTelemetry({
    version: readVersion(),
    usage: {
      userKey: config.metricsUserKey,
      written: () => snapshot().tenant?.telemetry,
      attributionOf: (name) => snapshot().subscriptions.get(name)?.resource.attribution,
    },
    sources: sourcesOf(context, measured),
    histograms: () => [
      ...counters().histograms(),
      soleHistogram('tollgate_key_store_query_seconds', queries),
    ],
    limitRatios: createLimitRatios({
      snapshot,
      readCounters: (...asked) => counters().counters.readFresh(...asked),
      raise: increases.raise,
      clock,
    }),
    proofs: identity.proofs,
  })
  stops.push(timedStop('the metrics', () => telemetry.stop()))
  return telemetry
}

/** The readings of each part. */
export function sourcesOf(
  { config, audit }: Pick<Context, 'config' | 'audit'>,
  measured: Omit<Measured, 'queries' | 'increases'>,
): Sources {
  const { keys, follower, propagation, keeper, counters, identity } = measured
  const { snapshot, problems, modelsWaiting, published } = measured
  const sums = (): JournalSums => counters().sums as JournalSums
  return {
    tollgate_models: () => snapshot().models.size,
    tollgate_models_waiting: modelsWaiting,
    ...(config.gatewayInternal && {
      tollgate_models_bypassed: () => bypassedModels(snapshot()).length,
    }),
    tollgate_subscriptions: () => snapshot().subscriptions.size,
    tollgate_resource_problems: () => problems().length,
    tollgate_resources_failing: () => measured.degraded().length > 0,
    tollgate_snapshot_compile_seconds: () => published().compileS,
    tollgate_snapshot_age_seconds: () => published().ageS,
    tollgate_overshoot_bound_tokens: () => maxOvershoot(snapshot()),
    ...(config.usageJournal && {
      tollgate_counters: () => sums().size,
      tollgate_journal_lines: () => sums().stats.lines,
      tollgate_journal_skipped: () => sums().stats.skipped,
      tollgate_journal_unread_bytes: () => sums().stats.unreadBytes,
      tollgate_journal_failing: () => sums().stats.failing,
      ...(config.redisUrl && {
        tollgate_redis_away: () => sums().isUnavailable || counters().holds.isRefused,
        tollgate_counters_unflushed: () => sums().unflushed,
        tollgate_redis_losses: () => sums().losses,
      }),
    }),
    ...(measured.table?.isOn && tableSources(measured.table)),
    tollgate_key_cache_entries: () => keys.stats().entries,
    tollgate_keys_ending_soon: measured.endingSoon,
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
    ...(measured.ledger && {
      tollgate_ledger_failing: () => measured.ledger?.stats.failing,
      tollgate_archive_failing: () => measured.ledger?.stats.archiveFailing,
      tollgate_ledger_gaps: () => measured.ledger?.stats.gaps,
    }),
  }
}

/** Readings of the gateway's writer; other processes have no table. */
function tableSources({ stats }: Pick<ProcessTable, 'stats'>): Sources {
  return {
    tollgate_table_open: () => stats()?.isOpen,
    tollgate_table_records: () => stats()?.records.used,
    tollgate_table_room_records: () => stats()?.records.of,
    tollgate_table_size_bytes: () => stats()?.bytes,
    tollgate_table_lease_age_seconds: () => (stats()?.leaseAgeMs ?? NaN) / 1_000,
    tollgate_table_published: () => stats()?.published,
    tollgate_table_withdrawn: () => stats()?.withdrawn,
    tollgate_table_unplaced: () => stats()?.unplaced,
  }
}
