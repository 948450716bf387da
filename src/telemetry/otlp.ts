/**
 * Sends spans and metrics to a collector, with OpenTelemetry's SDK. Loaded only if something is
 * exported: the import alone takes a third of a second of CPU and tens of megabytes.
 */

import { metrics, trace } from '@opentelemetry/api'
import { envDetector, hostDetector, resourceFromAttributes } from '@opentelemetry/resources'
import {
  type MetricProducer,
  PeriodicExportingMetricReader,
  type PushMetricExporter,
} from '@opentelemetry/sdk-metrics'
import { NodeSDK, type NodeSDKConfiguration } from '@opentelemetry/sdk-node'
import { createOutage } from '../runtime/outage.ts'

type Protocol = 'http/protobuf' | 'grpc'
type Signal = 'traces' | 'metrics'

interface OtlpOptions {
  /** The protocol of spans, which are not sent if it is undefined. */
  readonly traces: Protocol | undefined
  readonly metrics: Protocol | undefined
  readonly producer: MetricProducer
  readonly metricIntervalMs: number
  /** The SDK's own variables; `resource` sets the resource attributes that they do not set. */
  readonly env: Readonly<Record<string, string>>
  readonly resource: Readonly<Record<string, string>>
  /** Called when data is refused or lost for the first time, and when it is accepted again. */
  readonly onChange: (signal: Signal, problem: string | undefined) => void
}

/** How long an export of metrics may take; milliseconds. */
const maxMetricExportMs = 30_000

type TraceExporter = NonNullable<NodeSDKConfiguration['traceExporter']>

/** The caller has already decided to sample. */
const always: NonNullable<NodeSDKConfiguration['sampler']> = {
  shouldSample: () => ({ decision: 2 }),
  toString: () => 'always',
}

/** Exports spans of the global tracer, and metrics, until it is stopped. */
export async function startOtlp(options: OtlpOptions) {
  const { producer, onChange } = options
  const [spans, sums] = await Promise.all([
    options.traces && loadTraceExporter(options.traces),
    options.metrics && loadMetricExporter(options.metrics),
  ])
  const sdk = withVariables(options.env, () => {
    const reader =
      sums &&
      new PeriodicExportingMetricReader({
        exporter: watch(new sums(), 'metrics', onChange),
        exportIntervalMillis: options.metricIntervalMs,
        exportTimeoutMillis: Math.min(maxMetricExportMs, options.metricIntervalMs),
        metricProducers: [producer],
      })
    const sdk = new NodeSDK({
      resource: resourceFromAttributes(options.resource),
      resourceDetectors: [hostDetector, envDetector],
      sampler: always,
      textMapPropagator: null,
      logRecordProcessors: [],
      metricReaders: reader ? [reader] : [],
      ...(spans
        ? { traceExporter: watch(new spans(), 'traces', onChange) }
        : { spanProcessors: [] }),
    })
    sdk.start()
    return sdk
  })
  return {
    /** Sends pending data; data that the collector does not accept is lost. */
    async stop(): Promise<void> {
      await sdk.shutdown().catch(() => {})
      trace.disable()
      metrics.disable()
    },
  }
}

async function loadTraceExporter(protocol: Protocol): Promise<new () => TraceExporter> {
  if (protocol === 'grpc') {
    return (await import('@opentelemetry/exporter-trace-otlp-grpc')).OTLPTraceExporter
  }
  return (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter
}

async function loadMetricExporter(protocol: Protocol): Promise<new () => PushMetricExporter> {
  if (protocol === 'grpc') {
    return (await import('@opentelemetry/exporter-metrics-otlp-grpc')).OTLPMetricExporter
  }
  return (await import('@opentelemetry/exporter-metrics-otlp-proto')).OTLPMetricExporter
}

interface Result {
  readonly code: number
  readonly error?: Error
}

/** The exporter, which also reports when it begins to fail and when it recovers. */
function watch<Items, Exporter extends { export(items: Items, done: (r: Result) => void): void }>(
  exporter: Exporter,
  signal: Signal,
  onChange: OtlpOptions['onChange'],
): Exporter {
  const send = exporter.export.bind(exporter)
  const outage = createOutage<string>((problem) => onChange(signal, problem))
  exporter.export = (items, done) =>
    send(items, (result) => {
      outage.note(result.code === 0 ? undefined : (result.error?.message ?? 'fails'))
      done(result)
    })
  return exporter
}

/** The SDK reads its settings from the environment when its parts are created. */
function withVariables<T>(variables: Readonly<Record<string, string>>, act: () => T): T {
  const before = { ...process.env }
  Object.assign(process.env, variables)
  try {
    return act()
  } finally {
    for (const name of Object.keys(variables)) {
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
    }
  }
}
