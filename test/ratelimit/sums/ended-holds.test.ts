import { test } from 'tap'
import { createEndedHolds } from '../../../src/ratelimit/sums/ended-holds.ts'

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

test('tells those before the last ones once, unless the store has ended them', async (t) => {
  const ended = createEndedHolds()
  const add = (from: number, to: number) => {
    for (let i = from; i < to; i += 1) ended.add(keys, `r${i}`, 0, 1_000)
  }
  add(0, 16)
  t.strictSame(ended.older(keys), [])
  ended.forget([{ keys, ids: ['r1'] }])
  add(16, 40)
  const older = Array.from({ length: 24 }, (_, i) => `r${i}`).filter((id) => id !== 'r1')
  t.strictSame(ended.older(keys), older.slice(0, 16))
  t.strictSame(ended.older(keys), older.slice(16))
  t.strictSame(ended.older(keys), [])
})
