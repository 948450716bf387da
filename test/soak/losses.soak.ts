import t from 'tap'
import { claimLosses } from '../store/counters/lossy-schedules.ts'
import { createRandom } from '../support/random.ts'
import { skipValkey } from '../support/valkey.ts'

const { seed } = createRandom()

t.test(
  'three hundred losses of Redis never lead to counts that are too high',
  { skip: skipValkey },
  (t) => claimLosses(t, { seed, count: 300 }),
)
