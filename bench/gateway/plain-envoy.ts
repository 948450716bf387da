/**
 * The bare Envoy beside ours: the same listener and model server, without any filter in between.
 */

import type { SocketAddress } from '../../src/settings/config.ts'

const types = 'type.googleapis.com/envoy'

/**
 * Where it listens, and where it sends requests. With `authorizer` it calls that gRPC server for
 * each.
 */
export interface PlainEnvoySettings {
  readonly listen: SocketAddress
  readonly admin: SocketAddress
  readonly modelServer: SocketAddress
  readonly authorizer?: SocketAddress | undefined
}

/** Its bootstrap in JSON. */
export function renderPlainEnvoy(settings: PlainEnvoySettings): string {
  const { listen, admin, modelServer, authorizer } = settings
  const router = filter('envoy.filters.http.router', 'router.v3.Router', {})
  const authorize = filter('envoy.filters.http.ext_authz', 'ext_authz.v3.ExtAuthz', {
    transport_api_version: 'V3',
    grpc_service: { envoy_grpc: { cluster_name: 'authorizer' }, timeout: '2s' },
    // As in ours: Check gets only the credential.
    allowed_headers: { patterns: [{ exact: 'authorization' }, { exact: 'x-request-id' }] },
  })
  const connections = {
    '@type': `${types}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: 'plain',
    route_config: {
      virtual_hosts: [
        {
          name: 'all',
          domains: ['*'],
          routes: [{ match: { prefix: '/' }, route: { cluster: 'model', timeout: '0s' } }],
        },
      ],
    },
    http_filters: authorizer ? [authorize, router] : [router],
  }
  return JSON.stringify({
    admin: { address: address(admin) },
    static_resources: {
      listeners: [
        {
          name: 'plain',
          address: address(listen),
          filter_chains: [
            {
              filters: [
                {
                  name: 'envoy.filters.network.http_connection_manager',
                  typed_config: connections,
                },
              ],
            },
          ],
        },
      ],
      clusters: [
        cluster('model', modelServer, { http_protocol_options: {} }),
        ...(authorizer ? [cluster('authorizer', authorizer, { http2_protocol_options: {} })] : []),
      ],
    },
  })
}

function filter(name: string, type: string, config: object): object {
  return {
    name,
    typed_config: { '@type': `${types}.extensions.filters.http.${type}`, ...config },
  }
}

function cluster(name: string, to: SocketAddress, protocol: object): object {
  const options = 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions'
  return {
    name,
    type: 'STATIC',
    connect_timeout: '5s',
    circuit_breakers: {
      thresholds: [{ max_connections: 65_536, max_pending_requests: 65_536, max_requests: 65_536 }],
    },
    typed_extension_protocol_options: {
      [options]: {
        '@type': `${types}.extensions.upstreams.http.v3.HttpProtocolOptions`,
        explicit_http_config: protocol,
      },
    },
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: address(to) } }] }],
    },
  }
}

function address({ host, port }: SocketAddress): object {
  return { socket_address: { address: host, port_value: port } }
}
