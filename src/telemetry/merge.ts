/** Merges the figures of several processes. Pure. */

import type { Attributes } from '@opentelemetry/api'
import { DataPointType, type Histogram, type MetricData } from '@opentelemetry/sdk-metrics'

/** Gauges that are added up. Of others the maximum is used. */
const added: ReadonlySet<string> = new Set([
  'process_resident_memory_bytes',
  'tollgate_counters_unflushed',
  'tollgate_key_cache_entries',
  'tollgate_key_store_waiting',
])
/** Gauges of the first process alone. */
const own: ReadonlySet<string> = new Set(['process_start_time_seconds'])

type Point = MetricData['dataPoints'][number]

/**
 * Adds counters and histograms; adds or compares gauges. Includes metrics that only later processes
 * have. Does not change its arguments.
 */
export function mergeMetrics(
  first: readonly MetricData[],
  others: readonly (readonly MetricData[])[],
): readonly MetricData[] {
  const merged = new Map(first.map((metric) => [metric.descriptor.name, metric]))
  for (const metric of others.flat()) {
    const { name } = metric.descriptor
    const before = merged.get(name)
    if (before === undefined) merged.set(name, metric)
    else if (!own.has(name)) merged.set(name, addPoints(before, metric))
  }
  return [...merged.values()]
}

/** The figures that remain valid after their process has ended. */
export function lasting(metrics: readonly MetricData[]): readonly MetricData[] {
  return metrics.filter(({ dataPointType }) => dataPointType !== DataPointType.GAUGE)
}

function addPoints(one: MetricData, other: MetricData): MetricData {
  const points = new Map<string, Point>()
  for (const point of one.dataPoints) points.set(nameOf(point.attributes), point)
  for (const point of other.dataPoints) {
    const name = nameOf(point.attributes)
    const before = points.get(name)
    points.set(
      name,
      before === undefined ? point : { ...before, value: combine(one, before, point) },
    )
  }
  return { ...one, dataPoints: [...points.values()] } as MetricData
}

function combine({ descriptor, dataPointType }: MetricData, a: Point, b: Point): number {
  if (dataPointType === DataPointType.HISTOGRAM) {
    return addHistograms(a.value as Histogram, b.value as Histogram) as unknown as number
  }
  const [one, other] = [a.value as number, b.value as number]
  const isAdded = dataPointType === DataPointType.SUM || added.has(descriptor.name)
  return isAdded ? one + other : Math.max(one, other)
}

/** Both must have the same bounds. */
function addHistograms(a: Histogram, b: Histogram): Histogram {
  const counts = a.buckets.counts.map((count, i) => count + (b.buckets.counts[i] as number))
  return {
    buckets: { boundaries: a.buckets.boundaries, counts },
    sum: (a.sum ?? 0) + (b.sum ?? 0),
    count: a.count + b.count,
  }
}

function nameOf(attributes: Attributes): string {
  return JSON.stringify(Object.entries(attributes).sort(([a], [b]) => (a < b ? -1 : 1)))
}
