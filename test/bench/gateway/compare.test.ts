import { test } from 'tap'
import { compareFigures, readResults, renderComparison } from '../../../bench/gateway/compare.ts'
import { renderResults } from '../../../bench/gateway/report.ts'
import { sample } from '../../../bench/gateway/statistics.ts'
import { resultsOf } from './some-results.ts'

test('a difference counts if it exceeds the noise', async (t) => {
  const before = sample([95, 100, 105])
  const verdict = (values: number[], isCost = true) =>
    compareFigures(before, sample(values), isCost).verdict
  t.equal(verdict([75, 80, 85]), 'better')
  t.equal(verdict([75, 80, 85], false), 'worse')
  t.equal(verdict([115, 120, 125]), 'worse')
  t.equal(verdict([90, 97, 104]), 'same', 'the runs overlap')
  t.equal(
    verdict([106, 108, 140]),
    'same',
    'they do not overlap, but differ by less than their spread',
  )
  const { share, noise } = compareFigures(before, sample([80, 80, 80]), true)
  t.equal(share, -0.2)
  t.equal(noise, 0.05)
})

test('the table has medians, spreads and ratios', async (t) => {
  const table = renderResults(resultsOf({ envoyMicros: [300, 330, 310] }))
  t.match(table, /^request +rps bare +rps +rps\/core +Envoy bare +Envoy +times bare +service/m)
  t.match(table, /^path-json-small .* 100 ±0% +310 ±5% +3\.10 ±5% +150 ±0%/m)
  t.match(table, /^path-json-small +1\.00 ±0\.00/m, 'the latency added to the median')
  t.match(table, /^Go +60 ±0% +2\.50 ±0%/m, 'the service takes 2.5 times as long as the yardstick')
  t.match(table, 'The service allocated 4,000 bytes a request')
})

test('reports a rate that was not reached', async (t) => {
  t.notMatch(renderResults(resultsOf({})), 'was not reached')
  t.match(
    renderResults(resultsOf({ tookMs: 5_000 })),
    /path-json-small: the rate was not reached, 80/,
  )
})

test('compares a results file with new results', async (t) => {
  const before = readResults(JSON.stringify(resultsOf({ envoyMicros: [300, 300, 300] })))
  const after = resultsOf({ envoyMicros: [200, 200, 200] })
  const text = renderComparison(before, after)
  t.match(text, /better -33% \(0%\)/)
  t.match(text, /= 0% \(0%\)/)
  const elsewhere = { ...after, about: { ...after.about, cores: 64 } }
  t.match(renderComparison(before, elsewhere), 'Not alike: cores was 2 and is 64.')
  t.throws(() => readResults('{}'), /not what npm run bench --json writes/)
  t.throws(() => readResults('nonsense'))
})
