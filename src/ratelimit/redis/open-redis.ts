/** Opens Redis at the start of a process: the sums and holds in it. */

import type { Logger } from 'pino'
import { causeMessage } from '../../runtime/error-message.ts'
import { withAbort } from '../../runtime/with-abort.ts'
import { createRedisHolds, type RedisHoldsOptions } from '../holds/redis-holds.ts'
import { createRedisSums, type OnFlushed } from '../sums/redis-sums.ts'
import { connectRedis } from './connection.ts'

interface RedisOptions {
  /** Returns the current REDIS_URL. */
  readonly url: () => string
  readonly onFlushed: OnFlushed
  readonly log: Logger
  readonly signal: AbortSignal
}

/** How long a start waits for Redis, in milliseconds. */
const connectWaitMs = 1_800

/**
 * Rejects if Redis refuses the credentials or database, or its certificate is not trusted; continues if Redis does not
 * respond.
 */
export async function openRedis({ url, onFlushed, log, signal }: RedisOptions) {
  const connection = connectRedis(url, (error) =>
    log.debug({ cause: String(error) }, 'connection to Redis failed'),
  )
  const { commands } = connection
  try {
    const isUp = await withAbort(connection.connected(connectWaitMs), signal)
    const { problem } = connection
    if (problem?.isFinal) throw new Error(`REDIS_URL: ${problem.message}`)
    if (!isUp) {
      const cause = problem?.message ?? `no response within ${connectWaitMs / 1_000} s`
      log.warn(
        { code: 'redis_absent', setting: 'REDIS_URL', cause },
        'cannot reach Redis: starting without it',
      )
    }
  } catch (error) {
    connection.close()
    throw error
  }
  return {
    connection,
    store: createRedisSums(commands, onFlushed),
    createHolds: (options: Omit<RedisHoldsOptions, 'commands' | 'onRefused'>) =>
      createRedisHolds({
        ...options,
        commands,
        onRefused(isRefused, cause) {
          if (isRefused)
            log.error(
              { code: 'holds_refused', cause: causeMessage(cause) },
              'cannot hold requests in Redis: each process keeps limits of requests in progress by itself, as in an outage',
            )
          else log.info({ code: 'holds_accepted' }, 'Redis has refused no hold for a minute')
        },
      }),
  }
}
