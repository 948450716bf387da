import t from 'tap'
import { createRandom } from '../../../support/random.ts'
import { skipValkey } from '../../../support/valkey.ts'
import { createClusterWorld, createSentinelWorld, createServerWorld } from '../loss-worlds.ts'
import { claimLosses } from '../lossy-schedules.ts'

const { seed } = createRandom()
const skip = skipValkey
// They wait most of the time.
t.jobs = 3

t.test('after losses of data Redis never has too many tokens', { skip }, async (t) => {
  const worlds = Array.from({ length: 6 }, (_, i) => () => createServerWorld(t, seed + i))
  await claimLosses(t, { seed, count: 6, worlds })
})

t.test('the same with Sentinel', { skip }, async (t) => {
  await claimLosses(t, { seed, count: 1, worlds: [() => createSentinelWorld(t, seed)] })
})

t.test('the same in a Cluster', { skip }, async (t) => {
  await claimLosses(t, { seed, count: 1, worlds: [() => createClusterWorld(t, seed)] })
})
