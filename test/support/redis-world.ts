import type { Counter } from '../../src/core/decision/counter.ts'
import { connectRedis, type RedisConnection } from '../../src/store/counters/redis/connection.ts'
import { createRedisCounters, type RedisCounters } from '../../src/store/counters/redis/counters.ts'
import { keyPrefixOf, tagOf } from '../../src/store/counters/redis/keys.ts'
import { poll } from './poll.ts'

/** The counters of one process over Redis, what they reported, and their time. */
export interface Replica {
  readonly counters: RedisCounters
  readonly connection: RedisConnection
  /** Each change of whether Redis is unavailable. */
  readonly changes: boolean[]
  /** How many losses of data in Redis were noticed. */
  readonly losses: number
  /** Milliseconds that have passed in addition to real time. */
  aheadMs: number
  /** By how much its wall clock is ahead. */
  wallAheadMs: number
  /**
   * Reads now, and waits if that takes a promise; the tokens used, or undefined for a closed
   * window.
   */
  used(...counters: Counter[]): Promise<(number | undefined)[]>
  /** Waits until Redis has everything that was added. */
  flushed(): Promise<void>
  close(): Promise<void>
}

export interface ReplicaOptions {
  readonly url: string
  readonly flushMs?: number
  readonly onLoss?: 'allow' | 'deny'
  readonly timeoutMs?: number
  /** Name of the journal that reports the same responses. */
  readonly journal?: string
  /** How long a new Redis takes no reports (ms); 0 by default. */
  readonly youngMs?: number
  /** Whether to wait for the connection first, as the service does at its start. */
  readonly connect?: boolean
}

/** Builds what main.ts builds for REDIS_URL. */
export async function createReplica(options: ReplicaOptions): Promise<Replica> {
  const { url, flushMs = 5, onLoss = 'allow', timeoutMs, journal = '', connect = true } = options
  const { youngMs = 0 } = options
  const connection = connectRedis(url, () => {}, timeoutMs)
  const changes: boolean[] = []
  const counters = createRedisCounters({
    commands: connection.commands,
    cluster: connection.cluster,
    journal,
    flushMs,
    onLoss,
    onUnavailable: (unavailable) => changes.push(unavailable),
    youngMs,
    monotonic: () => performance.now() + replica.aheadMs,
    wallClock: () => Date.now() + replica.wallAheadMs,
  })
  const replica: Replica = {
    counters,
    connection,
    changes,
    get losses() {
      return counters.losses
    },
    aheadMs: 0,
    wallAheadMs: 0,
    async used(...asked) {
      const states = await counters.read(asked, Date.now())
      return states.map((state) => state?.used)
    },
    async flushed() {
      await poll(() => counters.unflushed === 0, 'everything is flushed', 20_000)
    },
    async close() {
      await counters.stop(0)
      connection.close()
    },
  }
  if (connect) await connection.connected(5_000)
  return replica
}

/** The key of a counter in Redis. */
export function redisKey({ key }: Counter): string {
  return keyPrefixOf(tagOf(key)) + key
}
