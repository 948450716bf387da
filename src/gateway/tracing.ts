/** Envoy's tracer: a span for each sampled request, sent to an OpenTelemetry collector. */

import { isIP } from 'node:net'
import { addressOfUrl } from '../formats/address.ts'
import type { GatewayTracing } from '../settings/otel-variables.ts'
import { loadAssignment, upstreamTls } from './clusters.ts'

interface Traced {
  early_header_mutation_extensions?: {
    typed_config: { mutations: { remove?: string }[] }
  }[]
  tracing?: object
}

const cluster = 'otel'
/** Headers in which a client describes its trace. */
export const clientHeaders: readonly (string | undefined)[] = [
  'traceparent',
  'tracestate',
  'x-client-trace-id',
]

/** Metadata of Check and of the usage script → the tags of the request's span. */
const tags = [
  ['tollgate.decision', 'envoy.filters.http.ext_authz', 'decision'],
  ['tollgate.model', 'envoy.filters.http.ext_authz', 'model'],
  ['tollgate.subscription', 'envoy.filters.http.ext_authz', 'subscription'],
  ['gen_ai.request.model', 'envoy.filters.http.ext_authz', 'model'],
] as const

/**
 * Tags by OpenTelemetry's conventions for generative AI, which are still "development". A tag has
 * one source: OpenAI's prompt and completion tokens keep the older names.
 */
const usageTags = [
  ['gen_ai.usage.total_tokens', 'tollgate.usage', 'total_tokens'],
  ['gen_ai.usage.prompt_tokens', 'tollgate.usage', 'prompt_tokens'],
  ['gen_ai.usage.completion_tokens', 'tollgate.usage', 'completion_tokens'],
  ['gen_ai.usage.input_tokens', 'tollgate.usage', 'input_tokens'],
  ['gen_ai.usage.output_tokens', 'tollgate.usage', 'output_tokens'],
] as const

/** Adds the tracer if there is a collector, and keeps clients' headers if they are trusted. */
export function putTracing(
  connections: object,
  clusters: object[],
  settings: {
    readonly tracing?: GatewayTracing | undefined
    readonly trustsTraces?: boolean | undefined
  },
): void {
  const traced = connections as Traced
  if (settings.trustsTraces) {
    for (const { typed_config } of traced.early_header_mutation_extensions ?? []) {
      typed_config.mutations = typed_config.mutations.filter(
        ({ remove }) => !clientHeaders.includes(remove),
      )
    }
  }
  const { tracing } = settings
  if (tracing === undefined) return
  traced.tracing = {
    client_sampling: { value: settings.trustsTraces ? 100 : 0 },
    random_sampling: { value: tracing.share * 100 },
    overall_sampling: { value: 100 },
    // Paths are the clients' own text and may contain a key.
    max_path_tag_length: 0,
    custom_tags: [...tags, ...usageTags].map(([tag, namespace, key]) => ({
      tag,
      metadata: {
        kind: { request: {} },
        metadata_key: { key: namespace, path: [{ key }] },
      },
    })),
    provider: {
      name: 'envoy.tracers.opentelemetry',
      typed_config: {
        '@type': 'type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig',
        service_name: tracing.serviceName,
        ...toService(tracing),
      },
    },
  }
  clusters.push(toCluster(tracing))
}

function toService({ endpoint, protocol, headers, timeoutMs }: GatewayTracing): object {
  const timeout = `${timeoutMs / 1_000}s`
  const sent = toHeaders(headers)
  if (protocol === 'grpc') {
    const initial_metadata = sent.map(([key, value]) => ({ key, value }))
    return {
      grpc_service: { envoy_grpc: { cluster_name: cluster }, timeout, initial_metadata },
    }
  }
  return {
    http_service: {
      http_uri: { uri: endpoint, cluster, timeout },
      request_headers_to_add: sent.map(([key, value]) => ({ header: { key, value } })),
    },
  }
}

function toCluster({ endpoint, protocol }: GatewayTracing): object {
  const url = new URL(endpoint)
  const { host, port } = addressOfUrl(url, protocol === 'grpc' ? 4317 : 80)
  return {
    name: cluster,
    type: isIP(host) === 0 ? 'STRICT_DNS' : 'STATIC',
    dns_lookup_family: 'V4_PREFERRED',
    wait_for_warm_on_init: false,
    connect_timeout: '1s',
    ...(protocol === 'grpc' && {
      typed_extension_protocol_options: {
        'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
          '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
          explicit_http_config: { http2_protocol_options: {} },
        },
      },
    }),
    ...(url.protocol === 'https:' && { transport_socket: upstreamTls(host) }),
    load_assignment: loadAssignment(cluster, host, port),
  }
}

function toHeaders(written = ''): readonly (readonly [string, string])[] {
  return written.split(',').flatMap((pair) => {
    const [name = '', ...value] = pair.split('=')
    return name.trim() === ''
      ? []
      : [[name.trim().toLowerCase(), decode(value.join('=').trim())] as const]
  })
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
