import { test } from 'tap'
import { createDurations } from '../../src/telemetry/durations.ts'

test('a duration is counted in the right bucket', async (t) => {
  const durations = createDurations()
  for (const milliseconds of [0, 0.01, 0.011, 0.1, 3, 2_500, 2_501, 1e9]) {
    durations.observe(milliseconds)
  }
  const { buckets, count, sum } = durations.read()
  const counted = Object.fromEntries(
    buckets.counts.map((each, i) => [buckets.boundaries[i] ?? 'more', each]),
  )
  t.match(counted, { 0.00001: 2, 0.000025: 1, 0.0001: 1, 0.005: 1, 2.5: 1, more: 2 })
  t.equal(
    buckets.counts.reduce((a, b) => a + b),
    8,
  )
  t.equal(count, 8)
  t.ok(Math.abs((sum ?? 0) - 1_000_005.004_121) < 1e-6)
})

test('a value that was read does not change later', async (t) => {
  const durations = createDurations()
  const { buckets } = durations.read()
  durations.observe(1)
  t.ok(buckets.counts.every((each) => each === 0))
  t.ok(durations.read().buckets.counts.includes(1))
})
