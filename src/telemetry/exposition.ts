/** Collects readings at the moment of a scrape, with OpenTelemetry's SDK. */

import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import {
  type CollectionResult,
  MeterProvider,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics'
import { readingsOf, type Sources } from './readings.ts'

export type Exposition = ReturnType<typeof createExposition>

/** Exposes these sources and the producers' metrics. */
export function createExposition(sources: Sources, producers: MetricProducer[] = []) {
  const reader = new PrometheusExporter({ preventServerStart: true, metricProducers: producers })
  const provider = new MeterProvider({ readers: [reader] })
  // Without timestamps, target_info and the labels of OpenTelemetry's scopes.
  const serializer = new PrometheusSerializer('', false, undefined, true, true)
  const meter = provider.getMeter('tollgate')
  for (const { kind, name, help, unit, label, read } of readingsOf(sources)) {
    const create = kind === 'counter' ? 'createObservableCounter' : 'createObservableGauge'
    meter[create](name, { description: help, unit }).addCallback((result) => {
      const value = read()
      if (typeof value === 'object') {
        for (const [of, figure] of value) result.observe(figure, { [label]: of })
      } else if (Number.isFinite(Number(value))) {
        result.observe(Number(value))
      }
    })
  }
  return {
    /** All metrics in Prometheus' text format 0.0.4. Rejects if one cannot be read. */
    async scrape(): Promise<string> {
      const { resourceMetrics, errors } = await reader.collect()
      if (errors.length > 0) throw new AggregateError(errors, 'some metrics cannot be read')
      return `${serializer.serialize(resourceMetrics)}`
    },
    /** All metrics, for other exporters. */
    producer: { collect: (): Promise<CollectionResult> => reader.collect() },
    stop: (): Promise<void> => provider.shutdown(),
  }
}
