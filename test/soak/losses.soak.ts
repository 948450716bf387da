import t from 'tap'
import {
  createClusterWorld,
  createSentinelWorld,
  createServerWorld,
} from '../store/counters/loss-worlds.ts'
import { claimLosses } from '../store/counters/lossy-schedules.ts'
import { createRandom } from '../support/random.ts'
import { skipValkey } from '../support/valkey.ts'

const { seed } = createRandom()
const skip = skipValkey

/** The name of each world, how to create it, and the number of schedules. */
const worlds = [
  ['a server and its replica', createServerWorld, 200],
  ['Sentinel', createSentinelWorld, 40],
  ['a Cluster', createClusterWorld, 40],
] as const

for (const [name, create, count] of worlds) {
  t.test(
    `losses of ${name}, two and three times, never lead to counts that are too high`,
    { skip },
    (t) => {
      const some = Array.from({ length: 6 }, (_, i) => () => create(t, seed + i))
      return claimLosses(t, { seed, count, worlds: some })
    },
  )
}
