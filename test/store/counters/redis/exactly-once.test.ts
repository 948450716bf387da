import t from 'tap'
import { createRandom } from '../../../support/random.ts'
import { skipValkey, startValkey } from '../../../support/valkey.ts'
import { claimExactlyOnce } from '../flaky-schedules.ts'

const { seed } = createRandom()

if (skipValkey) {
  t.test('every token is counted exactly once', { skip: skipValkey }, async () => {})
} else {
  const valkey = await startValkey(t)
  t.test('whatever is lost or repeated, sums are exact', (t) =>
    claimExactlyOnce(t, valkey, { seed, count: 120, windowMs: 3_600_000 }),
  )
  t.test('short windows have no more than was added', (t) =>
    claimExactlyOnce(t, valkey, { seed, count: 60, windowMs: 120 }),
  )
}
