/** What readings say at the moment of a scrape, by way of OpenTelemetry's SDK. */

import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import { MeterProvider, type MetricProducer } from '@opentelemetry/sdk-metrics'
import type { Reading } from './readings.ts'

export interface Exposition {
  /** All metrics in Prometheus' text format 0.0.4. Rejects when one cannot be read. */
  scrape(): Promise<string>
  /** The same metrics for whoever exports them otherwise. */
  readonly producer: MetricProducer
  stop(): Promise<void>
}

/** Of these readings, and of what the producers have besides. */
export function createExposition(
  readings: readonly Reading[],
  metricProducers: MetricProducer[] = [],
): Exposition {
  const reader = new PrometheusExporter({ preventServerStart: true, metricProducers })
  const provider = new MeterProvider({ readers: [reader] })
  // Without timestamps, target_info and the labels of OpenTelemetry's scopes.
  const serializer = new PrometheusSerializer('', false, undefined, true, true)
  const meter = provider.getMeter('tollgate')
  for (const { kind, name, help, unit = '', label = '', read } of readings) {
    const create = kind === 'counter' ? 'createObservableCounter' : 'createObservableGauge'
    meter[create](name, { description: help, unit }).addCallback((result) => {
      const value = read()
      if (typeof value === 'number' && Number.isFinite(value)) result.observe(value)
      if (typeof value !== 'object') return
      for (const [of, figure] of value) result.observe(figure, { [label]: of })
    })
  }
  return {
    async scrape() {
      const { resourceMetrics, errors } = await reader.collect()
      if (errors.length > 0) throw new AggregateError(errors, 'some metrics cannot be read')
      return `${serializer.serialize(resourceMetrics)}`
    },
    producer: { collect: () => reader.collect() },
    stop: () => provider.shutdown(),
  }
}
