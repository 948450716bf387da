import { ValueType } from '@opentelemetry/api'
import { DataPointType, type MetricData } from '@opentelemetry/sdk-metrics'
import { test } from 'tap'
import { createDurations } from '../../src/telemetry/durations.ts'
import { lasting, mergeMetrics } from '../../src/telemetry/merge.ts'
import { counterData, histogramData } from '../../src/telemetry/metric-data.ts'

function gauge(name: string, value: number): MetricData {
  return {
    descriptor: { name, description: '', unit: '', valueType: ValueType.DOUBLE },
    aggregationTemporality: 1,
    dataPointType: DataPointType.GAUGE,
    dataPoints: [{ attributes: {}, value, startTime: [0, 0], endTime: [0, 0] }],
  }
}

function valuesOf(metrics: readonly MetricData[], name: string): unknown {
  return metrics
    .find(({ descriptor }) => descriptor.name === name)
    ?.dataPoints.map(({ attributes, value }) => [attributes, value])
}

const calls = (...points: [user: string, model: string, value: number][]): MetricData =>
  counterData(
    'calls',
    '',
    points.map(([user, model, value]) => ({ attributes: { user, model }, value })),
  )

test('counters are summed by their labels', async (t) => {
  const own = [calls(['ann', 'a', 1], ['bob', 'a', 2])]
  const swapped = counterData('calls', '', [{ attributes: { model: 'a', user: 'bob' }, value: 40 }])
  const merged = mergeMetrics(own, [[swapped], [calls(['ann', 'b', 500])], []])
  t.strictSame(valuesOf(merged, 'calls'), [
    [{ user: 'ann', model: 'a' }, 1],
    [{ user: 'bob', model: 'a' }, 42],
    [{ user: 'ann', model: 'b' }, 500],
  ])
  t.strictSame(own, [calls(['ann', 'a', 1], ['bob', 'a', 2])], 'the arguments are unchanged')
})

test('histograms are summed by bucket', async (t) => {
  const of = (...milliseconds: number[]): MetricData => {
    const durations = createDurations([0.1, 1])
    for (const each of milliseconds) durations.observe(each)
    return histogramData('took', '', [{ attributes: {}, value: durations.read() }])
  }
  const merged = mergeMetrics([of(50, 500)], [[of(50)], [of(5_000)]])
  const buckets = { boundaries: [0.1, 1], counts: [2, 1, 1] }
  t.match(valuesOf(merged, 'took'), [[{}, { buckets, sum: 5.6, count: 4 }]])
})

test('gauges are summed if each process has a share, else compared', async (t) => {
  const names = ['tollgate_models', 'process_resident_memory_bytes', 'process_start_time_seconds']
  const [one, two] = [1, 7].map((value) => names.map((name) => gauge(name, value)))
  const merged = mergeMetrics(one as MetricData[], [two as MetricData[]])
  t.strictSame(
    names.map((name) => valuesOf(merged, name)),
    [[[{}, 7]], [[{}, 8]], [[{}, 1]]],
  )
})

test('counters of a process outlast it, its gauges do not', async (t) => {
  const left = lasting([gauge('tollgate_models', 3), calls(['ann', 'a', 1])])
  t.strictSame(left, [calls(['ann', 'a', 1])])
})
