import { test } from 'tap'
import { createRepeatDetector } from '../../src/table/repeat-detector.ts'
import { recordDigest } from '../../src/table/rules/format.ts'
import { laneOf } from '../../src/table/rules/lane.ts'
import { createTableWorld, grantOf } from '../support/table-world.ts'

const digestOf = (key: string) => recordDigest(key, '/v1/chat/completions', 'small')

test('what comes again within half a minute is repeated', async (t) => {
  let now = 0
  const isRepeated = createRepeatDetector(100, () => now)
  const ask = (at: number, key = 'one') => {
    now = at
    return isRepeated(digestOf(key))
  }
  t.notOk(ask(0))
  t.notOk(ask(1, 'two'), 'another request')
  t.notOk(ask(30_000), 'too late')
  t.ok(ask(59_999))
  t.ok(ask(119_998), 'its record is over, and it is published again at once')
  t.notOk(ask(180_000), 'it has not come since')
})

test('what is forgotten for want of room is not repeated', async (t) => {
  const isRepeated = createRepeatDetector(10, () => 0)
  t.notOk(isRepeated(digestOf('one')))
  for (let i = 0; i < 20; i += 1) t.notOk(isRepeated(digestOf(`other ${i}`)))
  t.notOk(isRepeated(digestOf('one')))
})

test('only what is repeated is published, and it says so', async (t) => {
  const isRepeated = createRepeatDetector(100, () => world.now.boot)
  const world = await createTableWorld(t, { isRepeated })
  await world.opened()
  const grant = grantOf('ada', [[1_000, '1h']])
  const offer = () =>
    world.table.admit({
      ...{
        grant,
        keyHash: 'hash-one',
        credential: 'sk-one',
        path: '/llm/small/v1/chat/completions',
      },
      ...({ bodyModel: undefined, dialect: 'openai' } as const),
      ...{ now: world.now.real, mark: world.table.mark },
    })
  t.equal(offer(), 'first')
  t.equal(world.decide(), 'unknown')
  t.match(world.reader.placeOf(laneOf(grant) ?? ''), / 0$/, 'its response finds the block')
  t.equal(offer(), undefined)
  t.not(world.decide(), 'unknown')
  t.match(world.table.stats(), { published: 1, unplaced: 0 })
})
