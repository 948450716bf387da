import { test } from 'tap'
import { createEndedHolds } from '../../../src/store/sums/ended-holds.ts'

const keys = ['held:a', 'holds:a', 'leases:a']

test('tells the last ones of a user that may hold still', async (t) => {
  const ended = createEndedHolds()
  t.strictSame(ended.last(keys), [])
  for (let i = 0; i < 40; i += 1) ended.add(keys, `r${i}`, 0, 1_000)
  ended.add(['held:b'], 'other', 0, 1_000)
  const last = Array.from({ length: 16 }, (_, i) => `r${24 + i}`)
  t.strictSame(ended.last(keys), last)
  ended.add(keys, 'r39', 0, 1_000)
  t.strictSame(ended.last(keys), last, 'each once')
  ended.forget([{ keys, ids: ['r39', 'r0'] }])
  t.strictSame(ended.last(keys), last.slice(0, -1), 'what the store has ended holds nothing')
  ended.add(keys, 'later', 1_000, 1_000)
  t.strictSame(ended.last(keys).at(-1), 'later')
  t.equal(ended.last(keys).length, 16)
  ended.add(['held:b'], 'much later', 2_000, 1_000)
  t.strictSame(ended.last(keys), ['later'], 'what has waited is forgotten')
})
