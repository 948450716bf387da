import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root, { test } from 'tap'
import type { Counted } from '../../../src/core/counting/sums.ts'
import { openFolder } from '../../../src/journal/folder.ts'
import { openKeptFiles } from '../../../src/journal/kept-files.ts'
import type { ResettableCounters } from '../../../src/store/counters.ts'
import { createMemoryHolds } from '../../../src/store/holds/memory.ts'
import { createRedisHolds } from '../../../src/store/holds/redis.ts'
import type { HoldStore } from '../../../src/store/holds.ts'
import { connectRedis } from '../../../src/store/redis/connection.ts'
import { tagsOf } from '../../../src/store/redis/keys.ts'
import { openGatewaySums } from '../../../src/store/sums/gateway-sums.ts'
import { createRedisSums } from '../../../src/store/sums/redis-sums.ts'
import { type RunningSums, runSums } from '../../../src/store/sums/running-sums.ts'
import { createKnownWindows, createSumCounters } from '../../../src/store/sums/sum-counters.ts'
import { startCluster } from '../../support/cluster.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { type CounterWorld, onlyTaken, testCounterStore } from './counter-store.contract.ts'
import { textLines } from './plain-lines.ts'

const file = 'usage.jsonl'
const lines = textLines((text) => [JSON.parse(text) as Counted])

interface Gateway {
  readonly running: RunningSums
  readonly holds: HoldStore
  readonly counters: ResettableCounters
  log(counted: Counted): void
  close(): Promise<void>
}

/** A gateway as the service builds it, whose resets others hear of at once. */
async function startGateway(
  url: string | undefined,
  now: () => number,
  all: readonly Gateway[],
): Promise<Gateway> {
  const folder = makeTemporaryFolder()
  mkdirSync(join(folder.path, 'lines'))
  const path = join(folder.path, 'lines', file)
  writeFileSync(path, '')
  const connection = url === undefined ? undefined : connectRedis(url, () => {})
  await connection?.connected(5_000)
  const clocks = { now, monotonic: () => performance.now() }
  const fail = (error: unknown): void => console.error(error)
  const sums = await openGatewaySums({
    ...{ ...clocks, ...lines, ...tagsOf(connection?.cluster === true) },
    ...{ gateway: `gateway-${all.length}`, files: [file], longSums: undefined },
    folder: openFolder(join(folder.path, 'lines')),
    kept: openKeptFiles(join(folder.path, 'kept')),
    store: connection && createRedisSums(connection.commands),
    ...{ onLoss: () => {}, onDouble: () => {}, onFault: fail },
  })
  await sums.becomeWriter()
  const running = runSums({
    ...{ ...clocks, sums, flushMs: 5, onLoss: 'allow', onUnavailable: () => {}, onFault: fail },
  })
  const { shared } = sums
  const windows = createKnownWindows(running, shared)
  const redisHolds =
    connection &&
    createRedisHolds({
      ...{ commands: connection.commands, windows, shared, isWriter: () => sums.isWriter },
      read: (counters, at) => running.read(counters, at),
    })
  const holds = redisHolds ?? createMemoryHolds(windows)
  const resets = {
    async write(keys: readonly string[], at: number, used = 0) {
      for (const each of all) for (const key of keys) each.running.reset(key, { at, used })
    },
  }
  return {
    ...{ running, holds },
    counters: createSumCounters({ running, holds, resets }),
    log: (counted: Counted) => appendFileSync(path, `\n${JSON.stringify(counted)}\n`),
    async close() {
      await running.stop(0)
      await redisHolds?.stop(0)
      connection?.close()
      folder.remove()
    },
  }
}

async function createWorld(url?: string): Promise<CounterWorld> {
  // Time stands still unless a test advances it.
  let time = Date.now()
  const now = () => time
  const all: Gateway[] = []
  const one = await startGateway(url, now, all)
  all.push(one)
  if (url !== undefined) all.push(await startGateway(url, now, all))
  return {
    ...{ counters: one.counters, holds: one.holds, now },
    other: (all.at(-1) as Gateway).counters,
    log: (counters, amount, at = now()) => one.log({ at, amount, counters }),
    advance(ms) {
      time += ms
    },
    async close() {
      for (const each of all) await each.close()
    },
  }
}

testCounterStore('alone', () => createWorld())

if (!skipValkey) {
  let urls: readonly string[] = []
  let servers: readonly RunningValkey[] = []
  root.before(async () => {
    const server = await startValkey(root)
    const nodes = await startCluster(root)
    urls = [server.url, `redis+cluster://127.0.0.1:${nodes[0]?.port}`]
    servers = [server, ...nodes]
  })
  for (const [i, name] of ['a server', 'a Cluster'].entries()) {
    testCounterStore(name, async () => {
      for (const { client } of servers) await client.flushall()
      return createWorld(urls[i])
    })
  }
}

test('alone, a hold knows the line that was just written', async (t) => {
  const world = await createWorld()
  t.teardown(() => world.close())
  const counter = { key: 'basic\nllm/small\nrequests-60000\na', owner: 'a', window: { ms: 60_000 } }
  const asked = { ...onlyTaken, taken: [{ ...counter, limit: 3 }] }
  for (let i = 0; i < 3; i += 1) {
    t.match(await world.holds.hold(asked, world.now()), { outcome: 'held', windows: [{ used: i }] })
    world.log([counter], 1)
  }
  t.match(await world.holds.hold(asked, world.now()), { outcome: 'spent' })
})

test('without a database a reset is refused', async (t) => {
  const counters = createSumCounters({
    running: { read: () => [], readFresh: async () => [], reset: () => t.fail('it is done') },
    holds: createMemoryHolds(() => []),
    resets: undefined,
  })
  const counter = { key: 'a', owner: 'a', window: { ms: 60_000 } }
  await t.rejects(counters.reset([counter], Date.now()), { code: 'store_unavailable' })
})
