import { test } from 'tap'
import { median, pairwise, sample, spread } from '../../../bench/gateway/statistics.ts'

test('the median is the middle value, or the mean of two', async (t) => {
  t.equal(median([9, 1, 5]), 5)
  t.equal(median([4, 1, 2, 9]), 3)
  t.equal(median([Number.NaN, 7]), 7)
  t.ok(Number.isNaN(median([])))
})

test('the spread is half the range, relative to the median', async (t) => {
  const figure = sample([90, 100, 120])
  t.same(figure, { median: 100, least: 90, most: 120 })
  t.equal(spread(figure), 0.15)
  t.ok(Number.isNaN(spread(sample([]))))
})

test('combines pairs before it takes the median', async (t) => {
  // In the second round everything was twice as slow; the ratios do not show it.
  const times = pairwise([30, 60, 33], [10, 20, 11], (ours, theirs) => ours / theirs)
  t.same(times, { median: 3, least: 3, most: 3 })
})
