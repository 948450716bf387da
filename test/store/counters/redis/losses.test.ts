import t from 'tap'
import { createRandom } from '../../../support/random.ts'
import { skipValkey } from '../../../support/valkey.ts'
import { claimLosses } from '../lossy-schedules.ts'

const { seed } = createRandom()

t.test('a Redis that loses its data never has too many', { skip: skipValkey }, (t) =>
  claimLosses(t, { seed, count: 16 }),
)
