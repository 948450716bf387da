import t from 'tap'
import { claimExactlyOnce } from '../store/counters/flaky-schedules.ts'
import { createRandom } from '../support/random.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const { seed } = createRandom()

t.test('two thousand schedules are counted exactly', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t)
  await claimExactlyOnce(t, valkey, { seed, count: 2_000, windowMs: 3_600_000 })
})

t.test('a thousand schedules with short windows', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t)
  await claimExactlyOnce(t, valkey, { seed, count: 1_000, windowMs: 120 })
})
