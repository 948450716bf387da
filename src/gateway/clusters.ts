/**
 * Envoy's dynamic configuration: one cluster for each model backend, in the file that Envoy's filesystem CDS watches.
 */

import { mkdir } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { addressOfUrl } from '../formats/address.ts'
import { replaceFile } from '../runtime/replace-file.ts'
import type { SecretLocation } from './secret-location.ts'

/** The target of a model's requests: `backendUrl` is `http://` or `https://`, host, port, base path. */
export type Backend = {
  readonly cluster: string
  readonly backendUrl: string
  /** Host header and TLS server name, if they differ from the URL. */
  readonly host?: string | undefined
  /** Milliseconds; 5 s by default. */
  readonly connectMs?: number
  /** Secrets that Envoy reads from files: the header with its credential, and the trusted authorities. */
  readonly credential?: { readonly header: string; readonly secret: SecretLocation } | undefined
  readonly authorities?: SecretLocation | undefined
}

const defaultConnectMs = 5_000

/** The name of the file in the watched directory; envoy/bootstrap.yaml reads this one. */
export const clustersFile = 'clusters.json'

const types = 'type.googleapis.com/envoy'
const clusterType = `${types}.config.cluster.v3.Cluster`

/** A `DiscoveryResponse` (envoy.service.discovery.v3) in JSON, with clusters that are already rendered. */
export function joinClusters(texts: Iterable<string>, version: string): string {
  const about = JSON.stringify({ version_info: version, type_url: clusterType }).slice(0, -1)
  return `${about},"resources":[${[...texts].join(',')}]}\n`
}

/** The list with which an Envoy starts before the service has written one. */
export const noClusters = joinClusters([], '0')

/**
 * One cluster of the response; throws a TypeError for a URL that is not http or https. Its text does not depend on the
 * others, so Envoy leaves unchanged clusters untouched.
 */
export function renderCluster(backend: Backend): string {
  return JSON.stringify({ '@type': clusterType, ...toCluster(backend) })
}

/**
 * Replaces the clusters file in `directory`, which is created if missing, by rename: Envoy reads
 * the old text or the new one, never a part. Concurrent calls are safe; the last rename wins. Envoy
 * does not start without the file, so write an empty list first.
 */
export async function writeClusters(directory: string, text: string): Promise<void> {
  await mkdir(directory, { recursive: true })
  await replaceFile(join(directory, clustersFile), text)
}

function toCluster(backend: Backend): object {
  const { cluster, backendUrl, connectMs = defaultConnectMs, credential, authorities } = backend
  const { host: written } = backend
  const url = new URL(backendUrl)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`${backendUrl} is neither http nor https`)
  }
  const { host, port } = addressOfUrl(url)
  return {
    name: cluster,
    ...resolution(host),
    connect_timeout: `${connectMs / 1_000}s`,
    // A long response occupies an HTTP/1.1 connection; the default of 1024 is meant for short ones.
    circuit_breakers: {
      thresholds: [
        {
          max_connections: 65_536,
          max_pending_requests: 65_536,
          max_requests: 65_536,
          max_retries: 65_536,
        },
      ],
    },
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': `${types}.extensions.upstreams.http.v3.HttpProtocolOptions`,
        explicit_http_config: { http_protocol_options: {} },
        // Below the five seconds after which Node and uvicorn close an idle connection. If the
        // server closes one just as a request is sent, the client gets a 503.
        common_http_protocol_options: { idle_timeout: '4s' },
        ...(credential && { http_filters: identifying(credential) }),
      },
    },
    ...(url.protocol === 'https:' && {
      transport_socket: upstreamTls(written ?? host, authorities),
    }),
    // The Host header for the backend, by the route's auto_host_rewrite.
    load_assignment: loadAssignment(cluster, host, port, written ?? url.host),
  }
}

/** The one address of a cluster. */
export function loadAssignment(
  cluster: string,
  host: string,
  port: number,
  hostname?: string,
): object {
  const address = { socket_address: { address: host, port_value: port } }
  const endpoint = { ...(hostname !== undefined && { hostname }), address }
  return { cluster_name: cluster, endpoints: [{ lb_endpoints: [{ endpoint }] }] }
}

function resolution(host: string): object {
  if (isIP(host) !== 0) return { type: 'STATIC' }
  // Envoy would otherwise not listen until every name is resolved or given up.
  const named = { dns_lookup_family: 'ALL', wait_for_warm_on_init: false }
  // One machine: every connection tries both addresses (RFC 8305).
  if (host === 'localhost') return { type: 'LOGICAL_DNS', ...named }
  return {
    type: 'STRICT_DNS',
    ...named,
    // One of several addresses may be dead: after three failed connections it is ejected for a while. If all are
    // ejected, all are used. Responses of a server never count.
    outlier_detection: {
      split_external_local_origin_errors: true,
      consecutive_local_origin_failure: 3,
      enforcing_consecutive_5xx: 0,
      enforcing_consecutive_gateway_failure: 0,
      enforcing_success_rate: 0,
      enforcing_local_origin_success_rate: 0,
      base_ejection_time: '10s',
      max_ejection_percent: 60,
    },
  }
}

/**
 * Filters between the router and the server. They run after the route has removed the client's
 * headers, and overwrite one of the same name. Without a value the request fails.
 */
function identifying({ header, secret }: NonNullable<Backend['credential']>): object[] {
  const filter = (name: string, type: string, config: object): object => ({
    name,
    typed_config: { '@type': `${types}.extensions.filters.http.${type}`, ...config },
  })
  return [
    filter('credential', 'credential_injector.v3.CredentialInjector', {
      overwrite: true,
      credential: {
        name: 'envoy.http.injected_credentials.generic',
        typed_config: {
          '@type': `${types}.extensions.http.injected_credentials.generic.v3.Generic`,
          header,
          credential: fromFile(secret),
        },
      },
    }),
    filter('model_headers', 'header_mutation.v3.HeaderMutation', modelHeaders),
    filter('envoy.filters.http.upstream_codec', 'upstream_codec.v3.UpstreamCodec', {}),
  ]
}

/**
 * The filter `model_headers` of envoy/bootstrap.yaml, which explains it. It is repeated here because a cluster
 * with its own filters does not get the router's.
 */
const modelHeaders = {
  mutations: {
    response_mutations: [
      {
        remove_on_match: {
          key_matcher: {
            safe_regex: {
              regex:
                '(access-control-|anthropic-(organization|ratelimit)|llm_provider-|openai-(organization|project)|' +
                '(x-)?ratelimit|x-(accel|envoy|litellm|maas|tollgate)-).*|' +
                'set-cookie|strict-transport-security|alt-svc|' +
                'clear-site-data|service-worker-allowed|nel|report-to|reporting-endpoints|location|' +
                'x-ext-auth-reason',
            },
          },
        },
      },
      overwrites('x-content-type-options', 'nosniff'),
      overwrites('content-security-policy', 'sandbox'),
    ],
  },
}

function overwrites(key: string, value: string): object {
  return { append: { header: { key, value }, append_action: 'OVERWRITE_IF_EXISTS_OR_ADD' } }
}

/** Envoy reads it again whenever the file is replaced. */
function fromFile({ name, path }: SecretLocation): object {
  const sds_config = { resource_api_version: 'V3', path_config_source: { path } }
  return { name, sds_config }
}

/** TLS to a server with this name or address, verified against the authorities. */
export function upstreamTls(host: string, authorities?: SecretLocation): object {
  const isName = isIP(host) === 0
  return {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': `${types}.extensions.transport_sockets.tls.v3.UpstreamTlsContext`,
      // RFC 6066 allows no addresses in SNI.
      ...(isName && { sni: host }),
      common_tls_context: {
        // Envoy as a client would offer at most TLS 1.2, which some servers refuse.
        tls_params: { tls_maximum_protocol_version: 'TLSv1_3' },
        combined_validation_context: {
          // A certificate of a trusted authority is not enough: it must be for this host.
          default_validation_context: {
            match_typed_subject_alt_names: [
              { san_type: isName ? 'DNS' : 'IP_ADDRESS', matcher: { exact: host } },
            ],
          },
          // All other models share the secret with this name in envoy/bootstrap.yaml.
          validation_context_sds_secret_config: authorities
            ? fromFile(authorities)
            : { name: 'authorities' },
        },
      },
    },
  }
}
