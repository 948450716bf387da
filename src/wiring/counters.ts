/** Counters: in this process, or shared through Redis. */

import { nameJournal } from '../ratelimit/journal/name.ts'
import { createMemoryCounters } from '../store/counters/memory.ts'
import { connectRedis } from '../store/counters/redis/connection.ts'
import { createRedisCounters, type RedisCounters } from '../store/counters/redis/counters.ts'
import type { Context } from './context.ts'

export interface Counters {
  readonly counters: RedisCounters | ReturnType<typeof createMemoryCounters>
  /** The same where Redis keeps them. */
  readonly redis: RedisCounters | undefined
}

/** How long a start waits for Redis. */
const connectWaitMs = 2_000

/** A Redis that does not answer delays the start a little, and no more. */
export async function openCounters({ config, log, stops }: Context): Promise<Counters> {
  if (config.redisUrl === undefined) return { counters: createMemoryCounters(), redis: undefined }
  const connection = connectRedis(config.redisUrl, (error) =>
    log.debug({ cause: String(error) }, 'Redis connection'),
  )
  const counters = createRedisCounters({
    commands: connection.commands,
    cluster: connection.cluster,
    flushMs: config.counterFlushMs,
    ...(config.usageJournal && { journal: readName(config.usageJournal) }),
    onLoss: config.onCounterLoss,
    onAway(away, cause) {
      // The message alone: what the error holds besides may be a password.
      if (away)
        log.error(
          { cause: String(cause) },
          'Redis is out of reach: counters go on from what is known',
        )
      else log.info('Redis is back')
    },
    onOther: () => log.error('Redis has lost its counters: it is told the highest that are known'),
  })
  stops.push({
    name: 'the counters',
    shareMs: 4_000,
    mostMs: 10_000,
    lost: 'what was counted last',
    async stop(graceMs) {
      const lost = await counters.stop(graceMs)
      if (lost > 0)
        log.error({ counters: lost }, 'Redis is out of reach: what they counted last is lost')
      connection.close()
    },
  })
  await connection.connected(connectWaitMs)
  return { counters, redis: counters }
}

function readName(path: string): string {
  try {
    return nameJournal(path)
  } catch (cause) {
    throw new Error(`USAGE_JOURNAL: cannot write beside ${path}`, { cause })
  }
}
