/**
 * Searches for bodies, responses of models, paths, headers and queries that cost Envoy and the
 * service much more CPU than plain ones of their length.
 *
 * In `npm test` it runs for some seconds, beginning with the known shapes, and reports what costs
 * more than eight times as much; `npm run fuzz:cost` takes half an hour and another seed, and
 * reports more than five times. Settings: FUZZ_SECONDS, FUZZ_SEED, FUZZ_RATIO, FUZZ_PLACES (a
 * regular expression for the names in places.ts).
 */
import { randomInt } from 'node:crypto'
import { test } from 'tap'
import { envoyPath } from '../../../support/envoy-binary.ts'
import { plainExchange } from './places.ts'
import { type Find, search } from './search.ts'
import { startWorld } from './world.ts'

const seconds = Number(process.env.FUZZ_SECONDS ?? 20)
const seed =
  process.env.FUZZ_SEED === 'random'
    ? randomInt(2 ** 31)
    : Number(process.env.FUZZ_SEED ?? 20_261_122)
const only = process.env.FUZZ_PLACES
const limit = Number(process.env.FUZZ_RATIO ?? 8)
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

function show({ place, ratio, unit, status }: Find): string {
  const text = JSON.stringify(unit.join(''))
  const shown = text.length > 200 ? `${text.slice(0, 200)}… (${text.length})` : text
  return `${place}: ${ratio.toFixed(1)} times, ${shown}, status ${status}`
}
