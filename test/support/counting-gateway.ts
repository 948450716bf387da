import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ExactInt } from '../../src/formats/exact.ts'
import { openDurableFiles } from '../../src/journal/durable-files.ts'
import { openJournalFolder } from '../../src/journal/journal-folder.ts'
import { createCounters, type ResettableCounters } from '../../src/ratelimit/counters.ts'
import { createMemoryHolds } from '../../src/ratelimit/holds/memory-holds.ts'
import { createRedisHolds } from '../../src/ratelimit/holds/redis-holds.ts'
import type { HoldStore } from '../../src/ratelimit/holds.ts'
import { connectRedis, type RedisConnection } from '../../src/ratelimit/redis/connection.ts'
import { hashTags } from '../../src/ratelimit/redis/keys.ts'
import type { LineUse } from '../../src/ratelimit/rules/sums.ts'
import { openGatewaySums } from '../../src/ratelimit/sums/gateway-sums.ts'
import { type ProcessSums, startSums } from '../../src/ratelimit/sums/process-sums.ts'
import { createRedisSums } from '../../src/ratelimit/sums/redis-sums.ts'
import { textLines } from '../ratelimit/sums/plain-lines.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

/** A gateway's counters and holds as the service builds them, with lines that contain their counts. */
export interface CountingGateway {
  readonly connection: RedisConnection | undefined
  readonly running: ProcessSums
  readonly holds: HoldStore
  readonly counters: ResettableCounters
  log(counted: LineUse): void
  close(): Promise<void>
}

export interface CountingOptions {
  readonly gateway: string
  /** A Redis shared with other gateways, if any. */
  readonly url?: string | undefined
  readonly now?: () => number
  readonly flushMs?: number
  /** `allow` by default. */
  readonly onLoss?: 'allow' | 'deny'
  /** The gateways that get its resets. */
  readonly all?: readonly CountingGateway[]
}

const file = 'usage.jsonl'

export async function startCountingGateway(options: CountingOptions): Promise<CountingGateway> {
  const { gateway, url, now = Date.now, flushMs = 5, onLoss = 'allow', all = [] } = options
  const folder = makeTemporaryFolder()
  mkdirSync(join(folder.path, 'lines'))
  const path = join(folder.path, 'lines', file)
  writeFileSync(path, '')
  const connection = url === undefined ? undefined : connectRedis(url, () => {})
  await connection?.connected(5_000)
  const clocks = { now, monotonic: () => performance.now() }
  const onFault = (error: unknown): void => console.error(error)
  const sums = await openGatewaySums({
    ...clocks,
    ...textLines((text) => [
      JSON.parse(text, (_, value) => (isLarge(value) ? BigInt(value.slice(0, -1)) : value)),
    ]),
    ...hashTags(connection?.cluster === true),
    ...{ gateway, files: [file], longSums: undefined, onFault },
    folder: openJournalFolder(join(folder.path, 'lines')),
    kept: openDurableFiles(join(folder.path, 'kept')),
    store: connection && createRedisSums(connection.commands),
    ...{ onLoss: () => {}, onDouble: () => {} },
  })
  await sums.becomeWriter()
  const running = startSums({
    ...{ ...clocks, sums, flushMs, onLoss, onUnavailable: () => {}, onFault },
  })
  const { windows } = running
  const redisHolds =
    connection &&
    createRedisHolds({
      ...{ commands: connection.commands, windows, isWriter: () => sums.isWriter },
      read: running.read,
      partitionOf: sums.shared.partitionOf,
    })
  const holds = redisHolds ?? createMemoryHolds(windows)
  const resets = {
    async write(keys: readonly string[], at: number, used: ExactInt = 0) {
      for (const each of all) for (const key of keys) each.running.reset(key, { at, used })
    },
  }
  return {
    ...{ connection, running, holds },
    counters: createCounters({ running, holds, resets }),
    log: (counted) =>
      appendFileSync(
        path,
        `\n${JSON.stringify(counted, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))}\n`,
      ),
    async close() {
      await running.stop(0)
      await redisHolds?.stop(0)
      connection?.close()
      folder.remove()
    },
  }
}

/** A whole number that JSON cannot represent. */
function isLarge(value: unknown): value is string {
  return typeof value === 'string' && /^\d+n$/.test(value)
}
