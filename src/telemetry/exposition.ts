/** What readings say at the moment of a scrape, by way of OpenTelemetry's SDK. */

import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import {
  type CollectionResult,
  MeterProvider,
  type MetricData,
  type MetricProducer,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics'
import { mergeMetrics } from './merge.ts'
import type { Reading } from './readings.ts'

export interface Exposition {
  /** All metrics in Prometheus' text format 0.0.4. Rejects when one cannot be read. */
  scrape(): Promise<string>
  /** The same metrics for whoever exports them otherwise. */
  readonly producer: MetricProducer
  /** Of them, those of this process alone. */
  collect(): Promise<readonly MetricData[]>
  stop(): Promise<void>
}

export interface ExpositionOptions {
  /** Of what there is besides readings. */
  readonly producers?: MetricProducer[]
  /** Figures of other processes, to be shown with those of this one; never rejects. */
  readonly others?: (() => Promise<readonly (readonly MetricData[])[]>) | undefined
}

/** Of these readings, and of what the producers have besides. */
export function createExposition(
  readings: readonly Reading[],
  { producers = [], others }: ExpositionOptions = {},
): Exposition {
  const reader = new PrometheusExporter({ preventServerStart: true, metricProducers: producers })
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
  async function collectAll(): Promise<CollectionResult> {
    const [{ resourceMetrics, errors }, figures] = await Promise.all([reader.collect(), others?.()])
    if (figures === undefined) return { resourceMetrics, errors }
    const metrics = [...mergeMetrics(flatten(resourceMetrics), figures)]
    const scopeMetrics = [{ scope: { name: 'tollgate' }, metrics }]
    return { resourceMetrics: { ...resourceMetrics, scopeMetrics }, errors }
  }

  return {
    async scrape() {
      const { resourceMetrics, errors } = await collectAll()
      if (errors.length > 0) throw new AggregateError(errors, 'some metrics cannot be read')
      return `${serializer.serialize(resourceMetrics)}`
    },
    producer: { collect: collectAll },
    collect: async () => flatten((await reader.collect()).resourceMetrics),
    stop: () => provider.shutdown(),
  }
}

function flatten({ scopeMetrics }: ResourceMetrics): readonly MetricData[] {
  return scopeMetrics.flatMap(({ metrics }) => metrics)
}
