/**
 * What a Check costs that holds room, or counts requests and those in progress, beside the same Check that
 * only counts tokens, with counters in memory; the hold is released in the same call. And the memory of an open hold. `node bench/reserve.bench.ts`.
 */

import { createLimitEnforcer } from '../src/extauthz/check-limits.ts'
import type { Snapshot } from '../src/models/rules/snapshot.ts'
import { createMemoryHolds } from '../src/ratelimit/holds/memory-holds.ts'
import type { HoldStore } from '../src/ratelimit/holds.ts'
import type { Counter } from '../src/ratelimit/rules/counter.ts'
import { createEstimators } from '../src/ratelimit/rules/estimates/estimators.ts'
import { emptyHold } from '../src/ratelimit/rules/hold.ts'
import { noTracing } from '../src/telemetry/tracing.ts'
import { createTestCounters } from '../test/support/counters.ts'
import { createWarmCheck } from './check.bench.ts'
import { createSnapshot } from './fixture.ts'
import { type Figure, microsInTurn } from './measure.ts'

const [models, teams] = [100, 16]
const day = 86_400_000

/** The fixture's snapshot, in which every Subscription reserves. */
function reserving(): Snapshot {
  const snapshot = createSnapshot(models, teams)
  const admission = { overshoot: 0.25, charge: 'admission' } as const
  for (const subscription of snapshot.subscriptions.values()) {
    Object.assign(subscription, { admission })
  }
  return snapshot
}

/** A snapshot in which every Subscription counts requests and requests in progress. */
const counting = (): Snapshot =>
  createSnapshot(models, teams, {
    limits: { requestRateLimits: [{ limit: 1_000_000_000, window: '1m' }], concurrency: 1_000_000 },
  })

/** The cost that `snapshot` adds to a Check; each Check releases its holds. */
async function measureCheck(name: string, snapshot: Snapshot): Promise<readonly Figure[]> {
  const counters = createTestCounters()
  const own = createMemoryHolds(counters.windows)
  let last: readonly [Parameters<HoldStore['release']>[0], string] | undefined
  const holds: HoldStore = {
    ...own,
    hold(asked, now) {
      last = [asked.counters, asked.id as string]
      return own.hold(asked, now)
    },
  }
  const limits = createLimitEnforcer({
    counters,
    holding: { holds, estimators: createEstimators(), onLoss: 'allow' },
  })
  const deps = { limits, snapshot: () => snapshot }
  const sent = { 'x-request-id': crypto.randomUUID(), 'content-length': '4000' }
  const held = await createWarmCheck(counters, deps, noTracing, {}, sent)
  const counted = await createWarmCheck(createTestCounters(), {}, noTracing, {}, sent)
  const work = ({ check, messages }: typeof held) => {
    return (i: number) => check(messages[i % messages.length] as Buffer)
  }
  const holding = work(held)
  const release = (i: number): void => {
    holding(i)
    own.release(...(last as NonNullable<typeof last>))
  }
  // What is measured second is slower by itself.
  const [plainFirst = 0, heldSecond = 0] = microsInTurn([work(counted), release])
  const [heldFirst = 0, plainSecond = 0] = microsInTurn([release, work(counted)])
  const [plain, withHold] = [(plainFirst + plainSecond) / 2, (heldFirst + heldSecond) / 2]
  if (last === undefined) throw new Error('nothing was held')
  return [
    { name: 'Check that counts tokens', value: `${plain.toFixed(2)} µs` },
    { name: `${name}, with the release`, value: `${withHold.toFixed(2)} µs` },
    { name: '  more', value: `${(withHold - plain).toFixed(2)} µs` },
  ]
}

function measureMemory(): Figure {
  const holds = createMemoryHolds(createTestCounters().windows)
  const size = 100_000
  const begin = used()
  for (let i = 0; i < size; i += 1) {
    const owner = `user ${Math.floor(i / 50)}`
    const counter: Required<Counter> = {
      ...{ key: `team\nllm/m1\n${day}\n${owner}`, owner, window: { ms: day }, limit: 1e9 },
    }
    const expected = { input: 900, inputVariance: 9e4, output: 400, outputVariance: 4e5 }
    holds.hold(
      {
        ...emptyHold,
        ...{ id: crypto.randomUUID(), counters: [counter], overshoot: 0.25, canLimitOutput: true },
        ...{
          expected: {
            ...expected,
            floor: 2_000,
            beyondRoom: 2_000,
            isSeveral: false,
            least: 1,
            worst: 4_096,
          },
          charge: 'admission',
        },
      },
      Date.now(),
    )
  }
  const bytes = (used() - begin) / holds.size
  return { name: 'an open hold, 50 for each counter', value: `${bytes.toFixed(0)} bytes` }
}

function used(): number {
  globalThis.gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

// First, because the garbage of the others is freed some time later.
const memory = measureMemory()
for (const { name, value } of [
  ...(await measureCheck('Check that holds tokens', reserving())),
  ...(await measureCheck('Check that counts requests and concurrency', counting())),
  memory,
]) {
  console.log(`| ${name} | ${value} |`)
}
