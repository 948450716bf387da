/** Counters: in this process, or shared through Redis. */

import type { MetricData } from '@opentelemetry/sdk-metrics'
import { nameJournal } from '../ratelimit/journal/name.ts'
import { createCounterTable, createMemoryCounters } from '../store/counters/memory.ts'
import { createCounterOwner } from '../store/counters/owner.ts'
import { createRedisCounters, type RedisCounters } from '../store/counters/redis/counters.ts'
import type { CounterCommands } from '../store/counters/redis/scripts.ts'
import {
  callBounds,
  createDistribution,
  createDurations,
  sizeBounds,
} from '../telemetry/durations.ts'
import { histogramData } from '../telemetry/metric-data.ts'
import { type Context, orAborted } from './context.ts'
import { part } from './stops.ts'
import type { Link } from './workers/link.ts'

export interface Counters {
  /** Histograms of the batches sent to Redis, if there is one. */
  readonly histograms: () => readonly MetricData[]
  readonly counters: RedisCounters | ReturnType<typeof createMemoryCounters>
  /** The counters, if Redis stores them. */
  readonly redis: RedisCounters | undefined
  /** For workers that share the counters of this process. */
  readonly owner?: CounterCommands
}

/** How long a start waits for Redis. */
const connectWaitMs = 1_800
/** A batch wakes worker and parent, which costs more than its content. */
const farFlushMs = 50
/** A worker's batch without a response after this time is sent again. */
const parentAnswersMs = 1_000

/**
 * A Redis that does not respond delays the start only briefly. One that refuses us, or whose
 * certificate is not trusted, ends it.
 */
export async function openCounters(context: Context): Promise<Counters> {
  const { config, log, stops, signal, clock, parent } = context
  if (config.redisUrl === undefined) {
    if (parent !== undefined) return openParentsCounters(context, parent)
    const table = createCounterTable()
    const owner = config.workers === 1 ? {} : { owner: createCounterOwner({ table, clock }) }
    const counters = createMemoryCounters(table)
    return { counters, redis: undefined, histograms: () => [], ...owner }
  }
  // The client is loaded on demand, because it takes memory and start-up time.
  const { connectRedis } = await import('../store/counters/redis/connection.ts')
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
  stops.push(
    part('the counters', async (graceMs) => {
      const lost = await counters.stop(graceMs)
      if (lost > 0) log.error({ counters: lost }, 'Redis is out of reach: the last counts are lost')
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
    histogramData(
      'tollgate_redis_flush_seconds',
      'How long Redis took to answer a batch of counters.',
      [{ attributes: {}, value: tookMs.read() }],
    ),
    histogramData(
      'tollgate_redis_flush_counters',
      'Counters in a batch sent to Redis.',
      [{ attributes: {}, value: sizes.read() }],
      '',
    ),
  ]
  return { counters, redis: counters, histograms }
}

/** In a worker: a view of its parent's counters, as otherwise of Redis. */
function openParentsCounters({ config, log, stops }: Context, parent: Link): Counters {
  const ask =
    <Answer>(name: string) =>
    (...args: readonly unknown[]): Promise<Answer> =>
      parent.call<Answer>(name, args, parentAnswersMs)
  const counters = createRedisCounters({
    commands: {
      session: 1,
      add: ask('add'),
      read: ask('read'),
      restore: ask('restore'),
      // Only the parent reads the journal.
      claim: async () => 0,
      forget: async () => 0,
    },
    cluster: false,
    plainKeys: true,
    flushMs: config.counterFlushMs,
    farFlushMs: Math.max(farFlushMs, config.counterFlushMs),
    // The counters live as long as this process.
    youngMs: 0,
    onLoss: config.onCounterLoss,
    onUnavailable(unavailable, cause) {
      if (unavailable)
        log.error(
          { cause: String(cause) },
          'the parent process, which keeps the counters, does not answer',
        )
      else log.info('the parent process answers again')
    },
  })
  stops.push({
    name: 'the counters',
    shareMs: 1_000,
    lost: 'what was counted last',
    async stop(graceMs) {
      const lost = await counters.stop(graceMs)
      if (lost > 0) log.error({ counters: lost }, 'the last counts are left to the journal')
    },
  })
  return { counters, redis: undefined, histograms: () => [] }
}

function readName(path: string): string {
  try {
    return nameJournal(path)
  } catch (cause) {
    throw new Error(`USAGE_JOURNAL: cannot write beside ${path}`, { cause })
  }
}
