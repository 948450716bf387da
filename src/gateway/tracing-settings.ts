/** The gateway's tracing, from the service's export settings. */

import type { Config } from '../settings/config.ts'
import type { TracingSettings } from './tracing.ts'

/** Where the gateway's spans are sent; undefined: it does not trace. */
export function tracingOf(config: Config): TracingSettings | undefined {
  const { otel } = config
  if (otel?.traces === undefined || !otel.gateway) return undefined
  const isGrpc = otel.traces === 'grpc'
  const { otelEndpoint = `http://localhost:${isGrpc ? 4317 : 4318}` } = config
  const endpoint = isGrpc ? otelEndpoint : `${otelEndpoint.replace(/\/+$/, '')}/v1/traces`
  const shares: Partial<Record<NonNullable<Config['otelSampler']>, number>> = {
    always_on: 1,
    parentbased_always_on: 1,
    always_off: 0,
    parentbased_always_off: 0,
  }
  const ratio = config.otelSampler && shares[config.otelSampler]
  const named = /(?:^|,)\s*service\.name\s*=([^,]*)/.exec(config.otelResourceAttributes ?? '')?.[1]
  return {
    endpoint: config.otelTracesEndpoint ?? endpoint,
    protocol: otel.traces,
    headers: config.otelTracesHeaders ?? config.otelHeaders,
    timeoutMs: config.otelTimeoutMs,
    share: ratio ?? config.otelSamplerArg,
    serviceName: `${config.otelServiceName ?? named?.trim() ?? 'tollgate'}-gateway`,
  }
}
