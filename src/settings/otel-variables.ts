/**
 * OpenTelemetry's variables ("Environment Variable Specification", "OTLP Exporter Configuration"). All are passed on to
 * its SDK. Those that this process and the gateway's tracer act on are read here, so that an unsupported value stops
 * the start; the SDK would ignore it.
 */

import * as form from './readers.ts'
import { type Environment, optional, parseSetting, textOf } from './setting.ts'

type OtlpProtocol = 'http/protobuf' | 'grpc'

export interface GatewayTracing {
  /** Where spans are sent: for gRPC host and port, for HTTP with the path. */
  readonly endpoint: string
  readonly protocol: OtlpProtocol
  /** Headers to send, as `name=value` with commas; values may be percent-encoded. */
  readonly headers?: string | undefined
  readonly timeoutMs: number
  /** The fraction of requests that is traced, from 0 to 1. */
  readonly share: number
  readonly serviceName: string
}

const protocol = form.oneOf('http/protobuf', 'grpc')
const endpoint = form.url('http:', 'https:')
const milliseconds = form.integer(1, 3_600_000)
const samplers = {
  always_on: 1,
  parentbased_always_on: 1,
  always_off: 0,
  parentbased_always_off: 0,
  traceidratio: undefined,
  parentbased_traceidratio: undefined,
} as const
const samplerNames = Object.keys(samplers) as (keyof typeof samplers)[]

/**
 * What is exported, and where. Returns undefined if nothing is exported, which requires an endpoint or an explicit
 * exporter.
 */
export function readOtel(env: Environment, problems: string[]) {
  const named = Object.entries(env).filter(([name]) => /^OTEL_(?!.*_FILE$)/.test(name))
  const passed: Record<string, string> = {}
  for (const [name, value] of named) if (value) passed[name] = value
  const read = <T>(rest: string, reader: form.Reader<T>): T | undefined => {
    const name = `OTEL_${rest}`
    const raw = textOf(env, name, problems)
    if (raw !== undefined) passed[name] = raw
    return parseSetting(raw, optional(name, '', reader, ''), problems)
  }
  /** A value for both signals, and one for each. */
  const readEach = <T>(name: string, reader: form.Reader<T>) => ({
    both: read(`EXPORTER_OTLP_${name}`, reader),
    traces: read(`EXPORTER_OTLP_TRACES_${name}`, reader),
    metrics: read(`EXPORTER_OTLP_METRICS_${name}`, reader),
  })
  const isDisabled = read('SDK_DISABLED', form.flag)
  const exporters = {
    traces: read('TRACES_EXPORTER', form.oneOf('otlp', 'none')),
    metrics: read('METRICS_EXPORTER', form.oneOf('otlp', 'prometheus', 'none')),
  }
  read('LOGS_EXPORTER', form.oneOf('none'))
  const endpoints = readEach('ENDPOINT', endpoint)
  const protocols = readEach('PROTOCOL', protocol)
  const headers = readEach('HEADERS', form.pairs)
  const timeoutMs = read('EXPORTER_OTLP_TIMEOUT', milliseconds)
  read('EXPORTER_OTLP_COMPRESSION', form.oneOf('none', 'gzip'))
  const sampler = read('TRACES_SAMPLER', form.oneOf(...samplerNames))
  const share = read('TRACES_SAMPLER_ARG', form.share)
  const metricIntervalMs = read('METRIC_EXPORT_INTERVAL', milliseconds)
  const serviceName = read('SERVICE_NAME', form.anyText)
  const attributes = read('RESOURCE_ATTRIBUTES', form.pairs)

  const protocolOf = (signal: 'traces' | 'metrics'): OtlpProtocol | undefined => {
    const hasEndpoint = (endpoints[signal] ?? endpoints.both) !== undefined
    const isSent = (exporters[signal] ?? (hasEndpoint && 'otlp')) === 'otlp'
    return isSent ? (protocols[signal] ?? protocols.both ?? 'http/protobuf') : undefined
  }
  const [traces, metrics] = [protocolOf('traces'), protocolOf('metrics')]
  if (isDisabled || (traces === undefined && metrics === undefined)) return undefined
  const isGrpc = traces === 'grpc'
  const { both: collector = `http://localhost:${isGrpc ? 4317 : 4318}` } = endpoints
  const inAttributes = /(?:^|,)\s*service\.name\s*=([^,]*)/.exec(attributes ?? '')?.[1]
  return {
    /** The protocol of spans, which are not sent if it is undefined. */
    traces,
    metrics,
    metricIntervalMs: metricIntervalMs ?? 60_000,
    /** The gateway's tracer, if it traces: an endpoint alone may be intended for the service only. */
    gateway:
      traces === undefined || exporters.traces === undefined
        ? undefined
        : {
            endpoint:
              endpoints.traces ??
              (isGrpc ? collector : `${collector.replace(/\/+$/, '')}/v1/traces`),
            protocol: traces,
            headers: headers.traces ?? headers.both,
            timeoutMs: timeoutMs ?? 10_000,
            share: (sampler && samplers[sampler]) ?? share ?? 1,
            serviceName: `${serviceName ?? inAttributes?.trim() ?? 'tollgate'}-gateway`,
          },
    /** The variables that the SDK reads itself. */
    env: passed,
  }
}
