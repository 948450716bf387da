import { test } from 'tap'
import { createDraw } from '../../../../bench/traces/random.ts'
import { createEstimator } from '../../../../src/ratelimit/rules/estimates/estimator.ts'
import { firstOutputP99 } from '../../../../src/ratelimit/rules/estimates/held-amounts.ts'
import {
  bucketMiddle,
  type HistogramScale,
  HistogramShape,
  LogHistogram,
} from '../../../../src/ratelimit/rules/estimates/log-histogram.ts'

const scale: HistogramScale = { perOctave: 3, buckets: 52, offset: 0 }
const even = new HistogramShape(new Float64Array(52).fill(1 / 52), scale)
const draw = createDraw(7)
const near = (value: number, wanted: number, by = 0.1) => Math.abs(value / wanted - 1) <= by

test('quantiles follow what was added within a bucket', async (t) => {
  const histogram = new LogHistogram(scale, even)
  const values = Array.from({ length: 2_000 }, () => draw.around(300, 0.7))
  for (const value of values) histogram.add(value)
  const sorted = values.slice(-700).sort((a, b) => a - b)
  for (const share of [0.5, 0.9]) {
    const ratio = histogram.shape.quantile(share) / (sorted[Math.floor(share * 700)] as number)
    t.ok(ratio > 0.85 && ratio < 1.15, `${share}: ${ratio}`)
  }
  t.ok(near(histogram.shape.quantile(1), 2 ** (52 / 3)))
  t.ok(near(even.quantile(26.5 / 52), 2 ** (26.5 / 3), 1e-3), 'also within a bucket')
})

test('newer values count more than older ones', async (t) => {
  const histogram = new LogHistogram(scale, even)
  for (let i = 0; i < 1_000; i += 1) histogram.add(100)
  for (let i = 0; i < 400; i += 1) histogram.add(1_000)
  t.ok(histogram.shape.quantile(0.4) > 800, `${histogram.shape.quantile(0.4)}`)
})

test('an estimator that has learned nothing has the first floor', async (t) => {
  const { floor } = createEstimator().expect({ bytes: 100, maxOutput: undefined }, undefined)
  t.equal(Math.ceil(floor), firstOutputP99)
})

test('moments of a cut value are those of its buckets', async (t) => {
  for (const bound of [0.5, 1, 20, 333, 1e9, Number.POSITIVE_INFINITY]) {
    const values = Array.from({ length: 52 }, (_, i) => Math.min(bound, bucketMiddle(scale, i)))
    const mean = values.reduce((sum, each) => sum + each, 0) / 52
    const variance = values.reduce((sum, each) => sum + (each - mean) ** 2, 0) / 52
    const moments = even.bounded(bound)
    t.ok(near(moments.mean, mean, 1e-9), `mean at ${bound}`)
    t.ok(
      Math.abs(moments.variance - variance) <= 1e-9 * mean * mean + 1e-6 * variance,
      `at ${bound}`,
    )
  }
})

test('an answer that has got far is expected to be long', async (t) => {
  const estimator = createEstimator()
  let before = 0
  for (const seen of [0, 10, 100, 1_000, 10_000, 1e6]) {
    const { mean, variance } = estimator.expectMore({ bytes: 1, maxOutput: undefined }, seen, 1e7)
    t.ok(mean >= seen && mean > before && variance >= 0, `${seen}: ${mean}`)
    before = mean
  }
  const capped = estimator.expectMore({ bytes: 1, maxOutput: undefined }, 900, 1_000)
  t.ok(capped.mean >= 900 && capped.mean <= 1_000)
  const own = estimator.expectMore({ bytes: 1, maxOutput: 1_000, choices: 2 }, 1_800, 1e7)
  t.ok(own.mean >= 1_800 && own.mean <= 2_000, 'by its own maximum')
})

test('what an answer has sent says nothing about its input', async (t) => {
  const sized = { bytes: 400_000, maxOutput: 100 }
  const estimator = createEstimator()
  const { inputVariance } = estimator.expect(sized, undefined)
  t.ok(inputVariance > 1e8)
  t.equal(estimator.expectMore(sized, 99, 100).inputVariance, inputVariance)
})

test('the first request has an estimate', async (t) => {
  const first = createEstimator().expect({ bytes: 4_000, maxOutput: undefined }, undefined)
  t.ok(near(first.input, 1_000, 0.2), `${first.input} tokens of 4000 bytes`)
  t.ok(first.output > 400 && first.output < 2_000)
  t.ok(first.floor > 4_000)
  t.equal(first.worst, Number.POSITIVE_INFINITY)
})

test('an estimate never exceeds the maximum', async (t) => {
  for (const maxOutput of [1, 7, 64, 4_096]) {
    const { output, floor, worst } = createEstimator().expect({ bytes: 10, maxOutput }, 2_048)
    t.equal(worst, Math.min(maxOutput, 2_048))
    t.ok(output <= worst && floor <= worst)
  }
})

test('a maximum that is not honoured bounds nothing', async (t) => {
  const estimator = createEstimator()
  const sized = { bytes: 10, maxOutput: 64 }
  const free = estimator.expect(sized, undefined, false)
  t.ok(free.output > 64 && free.floor > 64)
  t.equal(free.worst, Number.POSITIVE_INFINITY)
  t.equal(estimator.expect(sized, 2_048, false).worst, 2_048)
})

test('estimates follow a subscription within a hundred answers', async (t) => {
  const estimator = createEstimator()
  for (let i = 0; i < 100; i += 1) {
    const input = Math.round(draw.around(800, 0.5))
    const output = Math.round(draw.around(50, 0.2))
    estimator.learn({ bytes: input * 5, maxOutput: 1_024, input, output, isCut: false })
  }
  const own = estimator.expect({ bytes: 5_000, maxOutput: 1_024 }, undefined)
  t.ok(near(own.input, 1_000), `input ${own.input}`)
  t.ok(own.output > 45 && own.output < 100, `output ${own.output}`)
  t.ok(own.floor < 300, `99 of 100 need at most ${own.floor}`)
  const other = estimator.expect({ bytes: 5_000, maxOutput: undefined }, undefined)
  const first = createEstimator().expect({ bytes: 5_000, maxOutput: undefined }, undefined)
  t.ok(other.output < first.output / 2, 'another size class begins with what all have learned')
})

test('bytes of text for a token stay from half to twice of what is usual', async (t) => {
  const learned = (output: number, textBytes: number) => {
    const estimator = createEstimator()
    const observed = { bytes: 400, maxOutput: undefined, input: 100, isCut: false }
    for (let i = 0; i < 40; i += 1) estimator.learn({ ...observed, output, textBytes })
    return estimator.bytesPerToken
  }
  t.equal(learned(10, 1_000_000), 8, 'long text')
  t.equal(learned(5_000, 1_000), 2, 'tokens that are not in it')
  t.ok(near(learned(100, 500), 5, 0.05))
  t.equal(learned(100, 0), 4, 'no text was found')
})

test('a request of unknown length is expected to be like the others', async (t) => {
  const estimator = createEstimator()
  for (let i = 0; i < 200; i += 1) {
    estimator.learn({ bytes: 9_000, maxOutput: undefined, input: 2_000, output: 10, isCut: false })
  }
  const { input } = estimator.expect({ bytes: undefined, maxOutput: undefined }, undefined)
  t.ok(input > 1_500 && input < 2_600, String(input))
})

test('answers that were cut count as at least their length', async (t) => {
  const [whole, cut] = [createEstimator(), createEstimator()]
  for (let i = 0; i < 300; i += 1) {
    const length = Math.round(draw.around(1_000, 0.5))
    const part = i % 2 === 0 ? 1 : 0.3
    const sent = { bytes: 400, maxOutput: undefined, input: 100, output: length * part }
    whole.learn({ ...sent, isCut: false })
    cut.learn({ ...sent, isCut: part < 1 })
  }
  const expected = (of: typeof cut) => of.expect({ bytes: 400, maxOutput: undefined }, undefined)
  t.ok(expected(cut).output > 1.2 * expected(whole).output)
  t.ok(expected(cut).output > 900)
})

test('several answers to one prompt use as many times the output', async (t) => {
  const estimator = createEstimator()
  const [one, four] = [1, 4].map((choices) =>
    estimator.expect({ bytes: 100, maxOutput: 500, choices }, undefined),
  )
  t.equal(four?.output, 4 * (one?.output ?? 0))
  t.equal(four?.worst, 2_000)
  t.equal(four?.input, one?.input)
})

test('figures stay finite whatever is reported', async (t) => {
  const estimator = createEstimator()
  for (const size of [0, 1, 1e15, Number.MAX_SAFE_INTEGER]) {
    for (let i = 0; i < 500; i += 1) {
      estimator.learn({
        ...{ bytes: size, maxOutput: size, choices: 1 + (i % 3) },
        ...{ input: size, output: size, isCut: i % 2 === 0 },
      })
    }
  }
  for (const bytes of [0, 1, 1e15]) {
    const expected = estimator.expect({ bytes, maxOutput: 1e15 }, undefined)
    for (const [name, value] of Object.entries(expected)) t.ok(Number.isFinite(Number(value)), name)
  }
})
