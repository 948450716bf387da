/**
 * Searches for bodies, responses of models, paths, headers and queries that cost Envoy and the
 * service much more CPU than plain ones of their length.
 *
 * `npm test` measures only the known shapes (test/e2e/known-costs.test.ts). Settings: FUZZ_SECONDS, half an hour by default,
 * FUZZ_SEED, FUZZ_RATIO, FUZZ_PLACES (a regular expression for the names in places.ts).
 */
import { randomInt } from 'node:crypto'
import { test } from 'tap'
import { envoyPath } from '../../../support/envoy-binary.ts'
import { plainExchange } from './places.ts'
import { type Find, search, show } from './search.ts'
import { startWorld } from './world.ts'

const seconds = Number(process.env.FUZZ_SECONDS ?? 1_800)
const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31))
const only = process.env.FUZZ_PLACES
const limit = Number(process.env.FUZZ_RATIO ?? 5)
const skip = envoyPath() === undefined && 'no Envoy'

test('no text costs much more than a plain one', { skip }, async (t) => {
  t.comment(`seed ${seed}, ${seconds} s`)
  const world = await startWorld(t)
  const finds: Find[] = []
  const { tried, highest } = await search({
    world,
    seed,
    seconds,
    limit,
    only: only === undefined ? undefined : new RegExp(only),
    onFind: (find) => {
      finds.push(find)
      t.comment(`FIND ${show(find)}`)
    },
  })
  for (const [place, most] of highest) t.comment(`highest ${show({ place, ...most })}`)
  t.comment(`${tried} texts`)
  const { status } = await world.measure(plainExchange(world), 1)
  t.equal(status, 200, 'the key is still below its limit')
  t.ok(tried > 0, 'texts were measured')
  t.equal(finds.length, 0, `no text costs more than ${limit} times a plain one, seed ${seed}`)
})
