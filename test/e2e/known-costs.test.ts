/** The first of the shapes from which `npm run fuzz:cost` begins, in each place. */
import { test } from 'tap'
import { places } from '../nightly/fuzz/cost/places.ts'
import { type Find, search, show } from '../nightly/fuzz/cost/search.ts'
import { startWorld } from '../nightly/fuzz/cost/world.ts'
import { envoyPath } from '../support/envoy-binary.ts'

const skip = envoyPath() === undefined && 'no Envoy'
/** Promised are five times; other processes may disturb a measurement. */
const limit = 8

test('no known shape costs much more than a plain text', { skip }, async (t) => {
  const finds: Find[] = []
  const { tried } = await search({
    ...{ world: await startWorld(t), seed: 1, seconds: 120, most: 150, limit, calibrateBy: 40 },
    onFind: (find) => {
      finds.push(find)
      t.comment(show(find))
    },
  })
  t.comment(`${tried} texts`)
  t.ok(tried >= places.length, 'texts were measured in each place')
  t.equal(finds.length, 0, `none costs more than ${limit} times as much`)
})
