/** The process's metrics, read from the parts that have something to tell. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bypassedModels } from '../core/bypass.ts'
import { PACKAGE_ROOT } from '../package-root.ts'
import type { Journal } from '../ratelimit/journal/journal.ts'
import type { IdentityFigures } from '../telemetry/identity-counts.ts'
import { histogramData } from '../telemetry/metric-data.ts'
import { createTelemetry, type Telemetry } from '../telemetry/telemetry.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import { type Keys, outageGraceMs } from './keys.ts'
import type { Resources } from './resources.ts'
import type { Workers } from './workers/workers.ts'

export interface Measured extends Keys, Counters, Resources {
  readonly identity: IdentityFigures
  /** Asked only once everything has been built. */
  readonly journal: () => Journal | undefined
  readonly workers: () => Workers | undefined
}

/** The program's own. */
export function readVersion(): string {
  return JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8')).version
}

export function openTelemetry(
  { config, audit, stops, parent }: Context,
  measured: Measured,
): Telemetry {
  const {
    keys,
    follower,
    propagation,
    keeper,
    counters,
    redis,
    snapshot,
    problems,
    modelsWaiting,
    journal,
    workers,
    identity,
    queries,
    histograms,
    published,
  } = measured
  const telemetry = createTelemetry({
    version: readVersion(),
    usage: {
      users: { naming: config.metricsUser, key: config.metricsUserKey ?? '' },
      written: () => snapshot().tenant?.telemetry,
      attributionOf: (name) => snapshot().subscriptions.get(name)?.resource.attribution,
    },
    sources: {
      models: () => snapshot().models.size,
      modelsWaiting,
      ...(config.gatewayInternal && { modelsBypassed: () => bypassedModels(snapshot()).length }),
      subscriptions: () => snapshot().subscriptions.size,
      resourceProblems: () => problems().length,
      counters: () => counters.size,
      ...(redis && {
        redis: {
          away: () => redis.away,
          unflushed: () => redis.unflushed,
          losses: () => redis.losses,
        },
      }),
      keys: keys.stats,
      snapshot: published,
      histograms: () => [
        ...histograms(),
        histogramData(
          'tollgate_key_store_query_seconds',
          'How long the key store took to answer a look-up.',
          [{ attributes: {}, value: queries.read() }],
        ),
      ],
      auditLost: () => audit.lost,
      identity,
      revocations() {
        const { ageMs, others, silent } = follower.stats()
        return {
          databaseAway: follower.state() === 'away',
          ageMs,
          graceMs: outageGraceMs(config),
          replicas: others.length + 1,
          silent: silent.length,
          ...propagation.stats(),
          ...keeper.stats(),
        }
      },
      ...(config.workers > 1 && { workers: () => workers()?.stats ?? noWorkers }),
      // It is read by the process that keeps the counters.
      ...(config.usageJournal && !parent && { journal: () => (journal() as Journal).stats }),
    },
    ...(config.workers > 1 && { others: async () => (await workers()?.figures()) ?? [] }),
  })
  stops.push({
    name: 'the metrics',
    shareMs: 100,
    lost: 'nothing',
    stop: () => telemetry.stop(),
  })
  return telemetry
}

const noWorkers = { ready: 0, restarts: 0 }
