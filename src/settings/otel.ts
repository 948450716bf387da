/**
 * OpenTelemetry's settings, under the names of its specification ("Environment Variable
 * Specification", "OTLP Exporter Configuration"). They are read here so that an invalid one stops
 * the start; the SDK itself would ignore it. Others of the specification, such as those of the span
 * processor (OTEL_BSP_…), are only passed on to it.
 */

import * as form from './readers.ts'
import { optional, setting } from './setting.ts'

const protocols = ['http/protobuf', 'grpc'] as const
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
    'whether export is switched off, whatever else is set'),
  otelTracesExporter: optional('OTEL_TRACES_EXPORTER', '`otlp` where an endpoint for traces is set, else `none`', form.oneOf('otlp', 'none'),
    'where spans are exported; the gateway only traces with `otlp`'),
  otelMetricsExporter: optional('OTEL_METRICS_EXPORTER', '`otlp` where an endpoint for metrics is set, else `none`', form.oneOf('otlp', 'prometheus', 'none'),
    'where metrics are exported in addition to `METRICS_ADDRESS`'),
  otelLogsExporter: setting('OTEL_LOGS_EXPORTER', 'none', form.oneOf('none'),
    'logs are written to standard output'),
  otelEndpoint: optional('OTEL_EXPORTER_OTLP_ENDPOINT', '`http://localhost:4318`, for gRPC `:4317`', anyUrl,
    'the collector for spans and metrics'),
  otelTracesEndpoint: optional('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'the collector with `/v1/traces`', anyUrl,
    'endpoint for spans, including its path'),
  otelMetricsEndpoint: optional('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', 'the collector with `/v1/metrics`', anyUrl,
    'endpoint for metrics, including its path'),
  otelProtocol: setting('OTEL_EXPORTER_OTLP_PROTOCOL', 'http/protobuf', form.oneOf(...protocols),
    'protocol for spans and metrics'),
  otelTracesProtocol: optional('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', '`OTEL_EXPORTER_OTLP_PROTOCOL`', form.oneOf(...protocols),
    'protocol for spans'),
  otelMetricsProtocol: optional('OTEL_EXPORTER_OTLP_METRICS_PROTOCOL', '`OTEL_EXPORTER_OTLP_PROTOCOL`', form.oneOf(...protocols),
    'protocol for metrics'),
  otelHeaders: optional('OTEL_EXPORTER_OTLP_HEADERS', 'none', form.pairs,
    'headers sent with spans and metrics'),
  otelTracesHeaders: optional('OTEL_EXPORTER_OTLP_TRACES_HEADERS', 'none', form.pairs,
    'headers sent with spans'),
  otelMetricsHeaders: optional('OTEL_EXPORTER_OTLP_METRICS_HEADERS', 'none', form.pairs,
    'headers sent with metrics'),
  otelTimeoutMs: setting('OTEL_EXPORTER_OTLP_TIMEOUT', '10000', milliseconds,
    'timeout of the collector, in milliseconds'),
  otelCompression: setting('OTEL_EXPORTER_OTLP_COMPRESSION', 'none', form.oneOf('none', 'gzip'),
    'compression of spans and metrics'),
  otelCertificate: optional('OTEL_EXPORTER_OTLP_CERTIFICATE', 'the public authorities', form.path,
    'certificates (PEM) of the authorities trusted for the collector'),
  otelSampler: optional('OTEL_TRACES_SAMPLER', 'the share of `OTEL_TRACES_SAMPLER_ARG`', form.oneOf(...samplers),
    'which requests the gateway traces: all, none, or a share; the service follows the gateway'),
  otelSamplerArg: setting('OTEL_TRACES_SAMPLER_ARG', '1', form.share,
    'share of requests that the gateway traces'),
  traceTrustClients: setting('TRACE_TRUST_CLIENTS', 'false', form.flag,
    'whether to join the trace of a client\'s `traceparent` if it is sampled; otherwise the header is removed'),
  otelServiceName: optional('OTEL_SERVICE_NAME', '`service.name` of the attributes, else `tollgate`', form.anyText,
    'service name of everything that is exported; the gateway appends `-gateway`'),
  otelResourceAttributes: optional('OTEL_RESOURCE_ATTRIBUTES', 'none', form.pairs,
    'further resource attributes'),
  otelMetricIntervalMs: setting('OTEL_METRIC_EXPORT_INTERVAL', '60000', milliseconds,
    'interval between exports of metrics, in milliseconds'),
} as const
