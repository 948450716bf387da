/** Counters: in this process, or shared through Redis. */

import type { MetricData } from '@opentelemetry/sdk-metrics'
import { createEstimators, type Estimators } from '../core/admission/estimators.ts'
import { nameJournal } from '../ratelimit/journal/name.ts'
import { orAborted } from '../runtime/or-aborted.ts'
import { part } from '../runtime/stops.ts'
import { openMemoryCounters } from '../store/counters/kept-resets.ts'
import type { MemoryCounters } from '../store/counters/memory.ts'
import { createRedisCounters, type RedisCounters } from '../store/counters/redis/counters.ts'
import { createMemoryHolds } from '../store/holds/memory.ts'
import { withTaken } from '../store/holds/memory-taken.ts'
import type { HoldStore } from '../store/holds.ts'
import {
  callBounds,
  createDistribution,
  createDurations,
  sizeBounds,
} from '../telemetry/durations.ts'
import { soleHistogram } from '../telemetry/metric-data.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'

export interface Counters {
  /** Histograms of the batches sent to Redis, if there is one. */
  readonly histograms: () => readonly MetricData[]
  readonly counters: RedisCounters | MemoryCounters
  /** The counters, if Redis stores them. */
  readonly redis: RedisCounters | undefined
  readonly holds: HoldStore
  /** What subscriptions' requests use, as far as this process has learned. */
  readonly estimators: Estimators
}

/** How long a start waits for Redis. */
const connectWaitMs = 1_800

/**
 * A Redis that does not respond delays the start only briefly. One that refuses us, or whose
 * certificate is not trusted, ends it.
 */
export async function openCounters(context: Context, { pool }: Database): Promise<Counters> {
  const { config, log, stops, signal } = context
  const estimators = createEstimators()
  if (config.redisUrl === undefined) {
    const counters = await openMemoryCounters(pool)
    const holds = withTaken(createMemoryHolds(counters), counters)
    return { counters, redis: undefined, holds, estimators, histograms: () => [] }
  }
  // The client is loaded on demand, because it takes memory and start-up time.
  const { connectRedis } = await import('../store/counters/redis/connection.ts')
  const { createRedisHolds } = await import('../store/holds/redis.ts')
  const tookMs = createDurations(callBounds)
  const sizes = createDistribution(sizeBounds)
  const connection = connectRedis(config.redisUrlNow, (error) =>
    log.debug({ cause: String(error) }, 'Redis connection'),
  )
  const counters = createRedisCounters({
    commands: connection.commands,
    cluster: connection.cluster,
    flushMs: config.counterFlushMs,
    ...(config.usageJournal && { journal: readName(config.usageJournal) }),
    onLoss: config.onCounterLoss,
    onFlushed(size, ms) {
      tookMs.observe(ms)
      sizes.observe(size)
    },
    onUnavailable(unavailable, cause) {
      // Only the message: other fields of the error may contain a password.
      if (unavailable)
        log.error(
          { cause: connection.problem?.message ?? String(cause) },
          'Redis is out of reach: counters continue from the local view',
        )
      else log.info('Redis is back')
    },
    onOther: () => log.error('Redis has lost its counters: the highest known sums are restored'),
  })
  const holds = createRedisHolds(connection.commands, { kept: counters.kept, counters })
  stops.push(
    part('the counters', async (graceMs) => {
      const lost = await counters.stop(graceMs)
      if (lost > 0) log.error({ counters: lost }, 'Redis is out of reach: the last counts are lost')
      await holds.stop(graceMs)
      connection.close()
    }),
  )
  const isUp = await orAborted(connection.connected(connectWaitMs), signal)
  const { problem } = connection
  if (problem?.isFinal) throw new Error(`REDIS_URL: ${problem.message}`)
  if (!isUp) {
    const cause = problem?.message ?? `no answer within ${connectWaitMs / 1_000} s`
    log.warn({ setting: 'REDIS_URL', cause }, 'started without Redis')
  }
  const histograms = () => [
    soleHistogram(
      'tollgate_redis_flush_seconds',
      'How long Redis took to answer a batch of counters.',
      tookMs,
    ),
    soleHistogram('tollgate_redis_flush_counters', 'Counters in a batch sent to Redis.', sizes, ''),
  ]
  return { counters, redis: counters, holds, estimators, histograms }
}

function readName(path: string): string {
  try {
    return nameJournal(path)
  } catch (cause) {
    throw new Error(`USAGE_JOURNAL: cannot write beside ${path}`, { cause })
  }
}
