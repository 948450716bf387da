/**
 * `node bench/worker-batch.bench.ts`: what a response costs in the counters of a worker, as JSON on the
 * channel, and in the parent, beside the counters in memory of one process; a Check's read included.
 * In one process, so without writes, wake-ups and cold caches. `USERS=64`, each with two windows;
 * `REPORTS=200` in a batch.
 */

import { randomUUID } from 'node:crypto'
import { type Counter, counterOf, toCountedLimits } from '../src/core/counter.ts'
import { createCounterTable, createMemoryCounters } from '../src/store/counters/memory.ts'
import { createCounterOwner } from '../src/store/counters/owner.ts'
import { createRedisCounters } from '../src/store/counters/redis/counters.ts'
import type { CounterCommands } from '../src/store/counters/redis/scripts.ts'
import type { JournaledCounters } from '../src/store/counters.ts'
import { fastestQuarter } from './measure.ts'

const users = Number(process.env.USERS ?? 64)
const reports = Number(process.env.REPORTS ?? 200)
const batches = 1_000

const limits = toCountedLimits('team', 'llm/m0', [
  { limit: 900_000_000, window: '1m', windowMs: 60_000 },
  { limit: 900_000_000, window: '24h', windowMs: 86_400_000 },
])
const owner = createCounterOwner({ table: createCounterTable(), clock: Date.now })
let channelMs = 0
let parentMs = 0

/** A copy, as through the channel. */
function copy<T>(value: T): T {
  const begin = performance.now()
  const copied = JSON.parse(JSON.stringify(value))
  channelMs += performance.now() - begin
  return copied
}

function through<Name extends 'add' | 'read' | 'restore'>(name: Name): CounterCommands[Name] {
  const act = owner[name] as (...args: unknown[]) => Promise<unknown>
  return (async (...args: unknown[]) => {
    const received = copy(args)
    const begin = performance.now()
    const answer = await act(...received)
    parentMs += performance.now() - begin
    return copy(answer)
  }) as CounterCommands[Name]
}

const memory = createMemoryCounters()
const worker = createRedisCounters({
  commands: { ...owner, add: through('add'), read: through('read'), restore: through('restore') },
  ...{ cluster: false, plainKeys: true, youngMs: 0, onLoss: 'allow', onUnavailable() {} },
  // Each batch is sent as soon as it is complete.
  flushMs: 0.01,
})
let next = 0

/** Microseconds for each response of one batch. */
async function countBatch(counters: JournaledCounters): Promise<number> {
  const ids = Array.from({ length: reports }, () => randomUUID())
  const begin = performance.now()
  for (const id of ids) {
    next += 1
    const asked: readonly Counter[] = limits.map((limit) => counterOf(limit, `u${next % users}`))
    const now = Date.now()
    await counters.read(asked, now)
    counters.add(asked, 7, now, { id, endedAt: now, by: 'stream', onCounted() {} })
  }
  await counters.kept()
  return ((performance.now() - begin) * 1_000) / reports
}

const seen = {
  memory: [] as number[],
  worker: [] as number[],
  channel: [] as number[],
  parent: [] as number[],
}
for (let batch = -batches; batch < batches; batch += 1) {
  const inMemory = await countBatch(memory)
  channelMs = 0
  parentMs = 0
  const all = await countBatch(worker)
  // The first half is the warm-up.
  if (batch < 0) continue
  const channel = (channelMs * 1_000) / reports
  const parent = (parentMs * 1_000) / reports
  seen.memory.push(inMemory)
  seen.worker.push(all - channel - parent)
  seen.channel.push(channel)
  seen.parent.push(parent)
}
await worker.stop(0)

console.log(
  `µs of a response, ${users} users, batches of ${reports}, fastest quarter of ${batches}`,
)
for (const [name, micros] of Object.entries(seen)) {
  console.log(`  ${name}: ${fastestQuarter(micros).toFixed(2)}`)
}
