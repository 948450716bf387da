import root, { type Test } from 'tap'
import { createEstimators } from '../../src/core/admission/estimators.ts'
import { nothingReported } from '../../src/core/decision/usage.ts'
import { createHeld } from '../../src/ratelimit/held.ts'
import { createMemoryCounters } from '../../src/store/counters/memory.ts'
import { createMemoryHolds } from '../../src/store/holds/memory.ts'
import { modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { poll } from '../support/poll.ts'
import { createReplica, redisKey } from '../support/redis-world.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const hour = 3_600_000
const own = { key: `basic\nllm/small\n${hour}\nada`, windowMs: hour, limit: 1_000 }

/** What is charged for a request that was admitted this long ago. */
function createCharged(counters: Parameters<typeof createHeld>[0]['counters']) {
  const admission = { mode: 'reserve', charge: 'admission' }
  const limits = { 'llm/small': [[1_000, '1h']] } as const
  const snapshot = snapshotOf(modelRef('small'), subscription('basic', {}, limits, { admission }))
  const holds = createMemoryHolds(createMemoryCounters())
  const held = createHeld({
    ...{ snapshot: () => snapshot, counters, holds, estimators: createEstimators() },
  })
  return (agoMs: number) => {
    const now = Date.now()
    const usage = {
      ...{ user: 'ada', subscription: 'basic', model: 'llm/small', status: 200, bytes: 1 },
      reported: nothingReported,
      held: {
        ...{ id: 'a', admittedAt: now - agoMs, bytes: undefined, maxOutput: undefined },
        ...{ cap: undefined, tookMs: agoMs, isBroken: false },
      },
    }
    return held.charged(usage, [own], now).length
  }
}

root.test(
  'responses end before Redis has said when their window began',
  { skip: skipValkey },
  async (t) => {
    const valkey = await startValkey(t as Test)
    const { counters, used, flushed, close } = await createReplica({
      url: valkey.url,
      flushMs: 200,
    })
    t.teardown(close)
    const charged = createCharged(counters)
    t.strictSame(await used(own), [undefined])
    // Their holds have opened it, of which this process is not told.
    await valkey.client.set(redisKey(own), '0', 'PX', hour - 10_000)
    for (let i = 0; i < 3; i += 1) {
      t.equal(charged(9_000), 1, `response ${i}`)
      counters.add([own], 10, Date.now())
    }
    await flushed()
    t.equal(charged(9_000), 1)
    t.equal(charged(20_000), 0, 'an earlier window admitted it')
  },
)

root.test(
  'usage is charged while Redis is away and allows nothing',
  { skip: skipValkey },
  async (t) => {
    const valkey = await startValkey(t as Test)
    const replica = await createReplica({ url: valkey.url, onLoss: 'deny', timeoutMs: 200 })
    t.teardown(replica.close)
    const charged = createCharged(replica.counters)
    t.equal(charged(1_000), 1, 'a counter that would have to be fetched')
    valkey.freeze()
    await poll(() => replica.counters.unavailable, 'Redis is away')
    t.equal(charged(1_000), 1)
    t.equal(charged(hour + 1_000), 0)
  },
)
