import { test } from 'tap'
import { createRequestLimit } from '../../../src/admin/http/request-limit.ts'

const now = 1_000_000

test('a full window returns the time until it ends', async (t) => {
  const limit = createRequestLimit({ limit: 3, windowMs: 60_000 })
  t.strictSame(
    [0, 1, 2].map((ms) => limit.take('ann', now + ms)),
    [0, 0, 0],
  )
  t.equal(limit.take('ann', now + 10), 59_990)
  t.equal(limit.take('bob', now + 10), 0, 'each owner has a limit of their own')
  t.equal(limit.take('ann', now + 59_999), 1)
  t.equal(limit.take('ann', now + 60_000), 0, 'the next window has begun')
})

test('a clock that is set back locks nobody out', async (t) => {
  const limit = createRequestLimit({ limit: 1, windowMs: 60_000 })
  t.equal(limit.take('ann', now), 0)
  t.equal(limit.take('ann', now - 3_600_000), 0)
})

test('a flood of new owners resets no window and locks nobody out', async (t) => {
  const limit = createRequestLimit({ limit: 10, windowMs: 60_000 }, 1_000)
  for (let i = 0; i < 10; i += 1) limit.take('guesser', now)
  limit.take('honest', now)
  for (let i = 0; i < 100_000; i += 1) limit.take(`invented ${i}`, now + 1)
  t.ok(limit.take('guesser', now + 2) > 0, 'the guesser is still over the limit')
  t.equal(limit.take('honest', now + 2), 0)
})

test('closed windows are removed first', async (t) => {
  const limit = createRequestLimit({ limit: 2, windowMs: 1_000 }, 4)
  for (const owner of ['a', 'b', 'c']) for (let i = 0; i < 2; i += 1) limit.take(owner, now)
  limit.take('late', now + 999)
  limit.take('one more', now + 1_001)
  t.equal(limit.take('late', now + 1_002), 0)
  t.ok(limit.take('late', now + 1_003) > 0, 'its earlier use is still counted')
})
