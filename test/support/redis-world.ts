import { setTimeout as delay } from 'node:timers/promises'
import type { ExactInt } from '../../src/formats/exact.ts'
import { createRedisHolds, type RedisHolds } from '../../src/ratelimit/holds/redis-holds.ts'
import { connectRedis, type RedisConnection } from '../../src/ratelimit/redis/connection.ts'
import { hashTags, windowKey } from '../../src/ratelimit/redis/keys.ts'
import type { Counter } from '../../src/ratelimit/rules/counter.ts'
import { createWindowSums } from '../../src/ratelimit/rules/sums.ts'
import { windowAt } from '../../src/ratelimit/rules/windows.ts'
import {
  createPartitionSender,
  type PartitionSender,
} from '../../src/ratelimit/sums/partition-sender.ts'
import { createRedisSums } from '../../src/ratelimit/sums/redis-sums.ts'
import { createSharedSums } from '../../src/ratelimit/sums/shared-sums.ts'
import { poll } from './poll.ts'

/** A gateway that shares its counters and holds through Redis, without files: its lines are what a test adds. */
export interface SharingGateway {
  readonly connection: RedisConnection
  readonly holds: RedisHolds
  /** Whether the last call was not answered. */
  readonly isUnavailable: boolean
  /** Number of detected data losses in Redis, each hash tag by itself. */
  readonly losses: number
  add(counters: readonly Counter[], amount: ExactInt, at?: number): void
  /** The usage known after the store was asked. */
  used(...counters: Counter[]): Promise<readonly ExactInt[]>
  /**
   * Resolves once a call that begins now has sent the added counts to Redis and received its sums; up to 512 counters.
   */
  refreshed(): Promise<void>
  /** Waits until Redis has everything that was added, and no hold that was released. */
  flushed(): Promise<void>
  close(): Promise<void>
}

export interface SharingOptions {
  readonly url: string
  readonly gateway?: string
  readonly timeoutMs?: number
  readonly lease?: number
  readonly isWriter?: boolean
  /** Called before each read of usage. */
  readonly onLook?: () => void
  /** Milliseconds between two calls; 1 by default. */
  readonly flushMs?: number
  /** Whether to wait for the connection first, as the service does at its start. */
  readonly connect?: boolean
}

const beatMs = 1_000
let gateways = 0

export async function createSharingGateway(options: SharingOptions): Promise<SharingGateway> {
  gateways += 1
  const { url, timeoutMs, lease, gateway = `gateway${gateways}`, isWriter = true } = options
  const { flushMs = 1, onLook = () => {} } = options
  const connection = connectRedis(url, () => {}, timeoutMs)
  const monotonic = () => performance.now()
  const sums = createWindowSums(new Map(), monotonic)
  const failing = new Set<string>()
  let losses = 0
  const shared = createSharedSums({
    ...{ sums, gateway, nonce: `${gateway}-${gateways}`, now: Date.now, monotonic },
    ...hashTags(connection.cluster),
    store: createRedisSums(connection.commands),
    isWriter: () => isWriter,
    onBeyond() {},
    onLoss() {
      losses += 1
    },
    onRival() {},
  })
  const senders: PartitionSender[] = []
  for (const partition of shared.partitions.values()) {
    const onOutcome = (error?: unknown): void => {
      if (error === undefined) failing.delete(partition.tag)
      else failing.add(partition.tag)
    }
    const sender = createPartitionSender({ partition, flushMs, monotonic, onOutcome })
    partition.whenUrgent(() => sender.arm(1))
    senders.push(sender)
  }
  const beating = setInterval(() => {
    for (const sender of senders) sender.maintain()
  }, beatMs).unref()
  const due = (): number =>
    [...shared.partitions.values()].reduce((sum, partition) => sum + partition.due, 0)

  async function read(counters: readonly Counter[], at: number) {
    const unknown = counters.filter((each) => !shared.read(each, at).isKnown)
    if (unknown.length > 0) await shared.fetch(unknown, at)
    return counters.map((counter) => shared.read(counter, at))
  }
  async function refreshed(): Promise<void> {
    await Promise.all(senders.map((sender) => sender.refreshed()))
  }

  const holds = createRedisHolds({
    ...{
      commands: connection.commands,
      partitionOf: shared.partitionOf,
      read,
      isWriter: () => isWriter,
    },
    windows(counters, at) {
      onLook()
      return counters.map((counter) => shared.read(counter, at))
    },
    ...(lease !== undefined && { lease }),
  })
  if (options.connect !== false) await connection.connected(5_000)
  return {
    connection,
    holds,
    get isUnavailable() {
      return failing.size > 0
    },
    get losses() {
      return losses
    },
    add: (counters, amount, at = Date.now()) => shared.count({ at, amount, counters }),
    async used(...counters) {
      const now = Date.now()
      await read(counters, now)
      for (const counter of counters) shared.requestTotal(counter, now)
      await refreshed()
      return counters.map((counter) => shared.read(counter, now).used)
    },
    refreshed,
    // Faster than a poll: holds are released thousands of times.
    async flushed() {
      for (const until = Date.now() + 20_000; due() + holds.waiting > 0 && Date.now() < until; ) {
        await delay(1)
      }
      await poll(() => due() + holds.waiting === 0, 'everything is flushed', 1_000)
    },
    async close() {
      clearInterval(beating)
      await Promise.all([...senders.map((sender) => sender.stop(0)), holds.stop(0)])
      connection.close()
    },
  }
}

/** The key of a counter's current window in a single server. */
export function redisKey(counter: Counter, at = Date.now()): string {
  return windowKey(hashTags(false).tags[0] as string, windowAt(counter, at))
}
