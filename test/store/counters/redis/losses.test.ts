import t from 'tap'
import { createRandom } from '../../../support/random.ts'
import { skipValkey } from '../../../support/valkey.ts'
import { claimLosses } from '../lossy-schedules.ts'

const { seed } = createRandom()

t.test('after a loss of data Redis never has too many tokens', { skip: skipValkey }, (t) =>
  claimLosses(t, { seed, count: 16 }),
)
