/**
 * The settings of OpenTelemetry, by the names of its specification ("Environment Variable
 * Specification", "OTLP Exporter Configuration"). They are read here so that a bad one stops the
 * start; the SDK itself would go on without it.
 */

import * as form from './readers.ts'
import { optional, setting } from './setting.ts'

const protocols = ['http/protobuf', 'http/json', 'grpc'] as const
const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

const anyUrl = form.url('http:', 'https:')
const milliseconds = form.integer(1, 3_600_000)

// biome-ignore format: a row a setting
export const otelSettings = {
  otelDisabled: setting('OTEL_SDK_DISABLED', 'false', form.flag,
    'whether nothing is exported, whatever else is set'),
  otelTracesExporter: optional('OTEL_TRACES_EXPORTER', '`otlp` where an endpoint for traces is set, else `none`', form.oneOf('otlp', 'none'),
    'where spans go; the gateway traces only where this is `otlp`'),
  otelMetricsExporter: optional('OTEL_METRICS_EXPORTER', '`otlp` where an endpoint for metrics is set, else `none`', form.oneOf('otlp', 'prometheus', 'none'),
    'where metrics go beside `METRICS_ADDRESS`'),
  otelLogsExporter: setting('OTEL_LOGS_EXPORTER', 'none', form.oneOf('none'),
    'logs go to standard output'),
  otelEndpoint: optional('OTEL_EXPORTER_OTLP_ENDPOINT', '`http://localhost:4318`, for gRPC `:4317`', anyUrl,
    'the collector, for both'),
  otelTracesEndpoint: optional('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'the collector with `/v1/traces`', anyUrl,
    'where spans go, its path included'),
  otelMetricsEndpoint: optional('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', 'the collector with `/v1/metrics`', anyUrl,
    'where metrics go, its path included'),
  otelProtocol: setting('OTEL_EXPORTER_OTLP_PROTOCOL', 'http/protobuf', form.oneOf(...protocols),
    'how both are sent; the gateway sends `http/json` as `http/protobuf`'),
  otelTracesProtocol: optional('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'as both', form.oneOf(...protocols),
    'how spans are sent'),
  otelMetricsProtocol: optional('OTEL_EXPORTER_OTLP_METRICS_PROTOCOL', 'as both', form.oneOf(...protocols),
    'how metrics are sent'),
  otelHeaders: optional('OTEL_EXPORTER_OTLP_HEADERS', 'none', form.pairs,
    'headers sent with both'),
  otelTracesHeaders: optional('OTEL_EXPORTER_OTLP_TRACES_HEADERS', 'none', form.pairs,
    'headers sent with spans'),
  otelMetricsHeaders: optional('OTEL_EXPORTER_OTLP_METRICS_HEADERS', 'none', form.pairs,
    'headers sent with metrics'),
  otelTimeoutMs: setting('OTEL_EXPORTER_OTLP_TIMEOUT', '10000', milliseconds,
    'how long the collector may take, in milliseconds'),
  otelCompression: setting('OTEL_EXPORTER_OTLP_COMPRESSION', 'none', form.oneOf('none', 'gzip'),
    'how both are packed'),
  otelCertificate: optional('OTEL_EXPORTER_OTLP_CERTIFICATE', 'the usual authorities', form.path,
    'certificates (PEM) of the authorities that vouch for the collector'),
  otelSampler: optional('OTEL_TRACES_SAMPLER', 'the share of `OTEL_TRACES_SAMPLER_ARG`', form.oneOf(...samplers),
    'which requests the gateway traces: all, none, or a share; the service traces what the gateway does'),
  otelSamplerArg: setting('OTEL_TRACES_SAMPLER_ARG', '1', form.share,
    'the share of requests that the gateway traces'),
  traceTrustClients: setting('TRACE_TRUST_CLIENTS', 'false', form.flag,
    'whether a client\'s `traceparent` is believed: its trace is joined, unless it is not sampled; else the header is removed'),
  otelServiceName: optional('OTEL_SERVICE_NAME', '`service.name` of the attributes, else `tollgate`', form.anyText,
    'the service\'s name on all that is exported; the gateway\'s has `-gateway` behind it'),
  otelResourceAttributes: optional('OTEL_RESOURCE_ATTRIBUTES', 'none', form.pairs,
    'more of the kind, `key=value` with commas'),
  otelMetricIntervalMs: setting('OTEL_METRIC_EXPORT_INTERVAL', '60000', milliseconds,
    'how often metrics are sent, in milliseconds'),
  otelMetricTimeoutMs: setting('OTEL_METRIC_EXPORT_TIMEOUT', '30000', milliseconds,
    'how long one sending of them may take, in milliseconds'),
  otelSpanDelayMs: setting('OTEL_BSP_SCHEDULE_DELAY', '5000', milliseconds,
    'how long spans wait for others to be sent with, in milliseconds'),
  otelSpanTimeoutMs: setting('OTEL_BSP_EXPORT_TIMEOUT', '30000', milliseconds,
    'how long one sending of them may take, in milliseconds'),
  otelSpanQueue: setting('OTEL_BSP_MAX_QUEUE_SIZE', '2048', form.integer(1, 1_000_000),
    'spans kept while the collector is away; the ones beyond are dropped'),
  otelSpanBatch: setting('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', '512', form.integer(1, 1_000_000),
    'spans sent at once at most'),
} as const
