/** The metrics of a process at the moment of a scrape, in OpenTelemetry's data format and as Prometheus' text. */

import { millisToHrTime } from '@opentelemetry/core'
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import { emptyResource } from '@opentelemetry/resources'
import type { CollectionResult, MetricData } from '@opentelemetry/sdk-metrics'
import { setMetricTimes } from './metric-data.ts'
import { readingsOf, type Sources } from './readings.ts'

export type Exposition = ReturnType<typeof createExposition>

/** Exposes these sources, and the metrics that `collectMore` returns. `monotonic`: a clock in milliseconds. */
export function createExposition(
  sources: Sources,
  collectMore: () => Promise<readonly MetricData[]> = async () => [],
  monotonic = () => performance.now(),
) {
  // Without timestamps, target_info and the labels of OpenTelemetry's scopes.
  const serializer = new PrometheusSerializer('', false, undefined, true, true)
  // By a monotonic clock, so that no figure ends before it began.
  const startedAt = Date.now() - monotonic()
  const startTime = millisToHrTime(startedAt + monotonic())

  async function collect(): Promise<CollectionResult> {
    const { readings, errors } = readingsOf(sources)
    const all = [...readings, ...(await collectMore())]
    const metrics = all.filter(({ dataPoints }) => dataPoints.length > 0)
    setMetricTimes(metrics, startTime, millisToHrTime(startedAt + monotonic()))
    const scopeMetrics = [{ scope: { name: 'tollgate' }, metrics }]
    return { resourceMetrics: { resource: emptyResource(), scopeMetrics }, errors }
  }

  return {
    /** All metrics in Prometheus' text format 0.0.4. Rejects if one cannot be read. */
    async scrape(): Promise<string> {
      const { resourceMetrics, errors } = await collect()
      if (errors.length > 0) throw new AggregateError(errors, 'some metrics cannot be read')
      return serializer.serialize(resourceMetrics)
    },
    /** All metrics, for other exporters. */
    producer: { collect },
  }
}
