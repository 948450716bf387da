import { test } from 'tap'
import { createLineLimit } from '../../src/runtime/line-limit.ts'

test('passes one line per interval, with the number of suppressed ones', async (t) => {
  const lines = createLineLimit(1_000)
  t.equal(lines.pass('a', 0), 0)
  t.equal(lines.pass('a', 999), undefined)
  t.equal(lines.pass('a', 999), undefined)
  t.equal(lines.pass('b', 999), 0, 'of another kind')
  t.equal(lines.pass('a', 1_000), 2)
  t.equal(lines.pass('a', 2_000), 0)
})

test('a clock that was set back suppresses nothing', async (t) => {
  const lines = createLineLimit(1_000)
  t.equal(lines.pass('a', 10_000), 0)
  t.equal(lines.pass('a', 9_500), undefined)
  t.equal(lines.pass('a', 5_000), 1)
})
