/** Envoy's static configuration: envoy/bootstrap.yaml with the settings of this installation. */

import { existsSync } from 'node:fs'
import { isIP } from 'node:net'
import { dirname } from 'node:path'
import type { Address } from '../formats/address.ts'
import { hopHeader } from '../formats/hop-mark.ts'
import { idleTimeouts } from '../kinds/model-server-schema.ts'
import type { GatewayTracing } from '../settings/otel-variables.ts'
import { putTracing } from './tracing.ts'

/**
 * The settings that differ between installations. `grpc` and `api` have one address for each process of the service.
 */
export type BootstrapSettings = {
  readonly gateway: Address
  readonly admin: Address
  /** The mark on requests to models, which is refused when it comes back. */
  readonly hopMark: string
  readonly grpc: readonly Address[]
  readonly api: readonly Address[]
  /** The file that `writeClusters` replaces. */
  readonly clustersFile: string
  /** Where the lines of responses are written; unset if nowhere. */
  readonly lines?: LinesFiles | undefined
  /** PEM file of the authorities that https backends are verified against; unset keeps the template's. */
  readonly authoritiesFile?: string | undefined
  /** The largest request body (bytes), and the time for a request to arrive. */
  readonly bodyLimit?: number | undefined
  readonly bodyTimeoutMs?: number | undefined
  /** Origins whose pages may call the gateway, `*` for all; none by default. */
  readonly allowedOrigins?: readonly string[] | undefined
  /** Headers of clients that reach models although a prefix of envoy/bootstrap.yaml removes them; none by default. */
  readonly headersToModels?: ReadonlySet<string> | undefined
  /** Where the gateway's spans are sent; unset if it does not trace. */
  readonly tracing?: GatewayTracing | undefined
  /** Whether clients' trace headers are trusted; by default they are removed. */
  readonly trustsTraces?: boolean | undefined
  /** Whether a response without usable usage is charged by its length; by default nothing is. */
  readonly chargesUnusable?: boolean | undefined
  /** The memory that Envoy may use for all connections together (bytes). */
  readonly heapBytes?: number | undefined
  /** The number of proxies in front of Envoy whose `x-forwarded-for` is trusted; none by default. */
  readonly trustedHops?: number | undefined
  /** A file made by `renderCertificate`; unset if the listener uses plain HTTP. */
  readonly certificateFile?: string | undefined
}

/** Files that the gateway shares with the service, which creates them before Envoy starts. */
interface LinesFiles {
  /** The file with the lines of the gateway's script, and the one that tells the script that this file was renamed. */
  readonly script: string
  readonly head: string
  /** Space that the script frees if it cannot write a line. */
  readonly ballast?: string | undefined
  /** The lines that the script does not write: Envoy's own log. */
  readonly envoy: string
  /** The decision table and its lanes, if any. */
  readonly table?: string | undefined
  readonly lanes?: string | undefined
}

// Debian and Alpine, Fedora and RHEL, SUSE, macOS and the BSDs.
const authorities = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

/** Holds the client's `x-tollgate-hop`, because envoy/bootstrap.yaml removes our headers. */
const receivedHop = 'received-hop'

const heapMonitor = 'envoy.resource_monitors.fixed_heap'

/**
 * The part of Envoy's memory that its allocator may hold. The monitor does not see Lua's memory, which gets the rest:
 * 16 MiB for each thread, with at most one thread for each 128 MiB of the whole.
 */
function allocatorBytes(heapBytes: number): number {
  return heapBytes - Math.ceil(heapBytes / 8)
}

type Endpoint = { endpoint: { address: unknown; hostname?: string } }
type Cluster = {
  name: string
  type: string
  dns_lookup_family?: string
  wait_for_warm_on_init?: boolean
  load_assignment: { endpoints: { lb_endpoints: Endpoint[] }[] }
}
type RetryPolicy = { retry_host_predicate?: object[]; host_selection_retry_max_attempts?: number }
type Asking = { grpc_service?: { retry_policy?: RetryPolicy } }
type AccessLog = { name: string; typed_config: { path?: string } }
type Route = {
  name: string
  match: { headers?: object[] }
  route?: { cluster_header?: string; idle_timeout?: string; retry_policy?: RetryPolicy }
  request_headers_to_add?: { header: { key: string; value: string } }[]
}
type VirtualHost = { routes: Route[]; typed_per_filter_config?: Record<string, object> }
type Connections = {
  route_config: { virtual_hosts: VirtualHost[] }
  access_log: AccessLog[]
  early_header_mutation_extensions: { name: string; typed_config: { mutations: object[] } }[]
  http_filters: {
    name: string
    typed_config: Asking & {
      max_request_bytes?: number
      allowed_headers?: { patterns: { exact: string }[] }
      default_source_code?: { inline_string: string }
    }
  }[]
  request_timeout: string
  xff_num_trusted_hops?: number
}
type Listener = {
  name: string
  address: unknown
  filter_chains: { filters: { typed_config: Connections }[]; transport_socket?: object }[]
}
type Bootstrap = {
  admin: { address: unknown }
  overload_manager: {
    resource_monitors: { name: string; typed_config: { max_heap_size_bytes?: number } }[]
  }
  dynamic_resources: {
    cds_config: {
      path_config_source: { path: string; watched_directory: { path: string } }
    }
  }
  static_resources: {
    listeners: Listener[]
    clusters: Cluster[]
    secrets: { name: string; validation_context: { trusted_ca: { filename: string } } }[]
  }
}

/**
 * Fills the parsed envoy/bootstrap.yaml, which it changes, with these settings: JSON for Envoy's `--config-path` in a
 * file named `*.json`. Throws if the template lacks a part that must be replaced, or if `grpc` or `api` is empty.
 */
export function fillBootstrapTemplate(parsed: unknown, settings: BootstrapSettings): string {
  const bootstrap = parsed as Bootstrap
  const { clusters, listeners, secrets } = bootstrap.static_resources
  const files = bootstrap.dynamic_resources.cds_config.path_config_source

  const gateway = named(listeners, 'gateway')
  gateway.address = toListener(settings.gateway)
  for (const chain of gateway.filter_chains) {
    if (settings.certificateFile !== undefined) {
      chain.transport_socket = tlsContext(settings.certificateFile)
    }
    for (const { typed_config: connections } of chain.filters) {
      putTrustedHops(connections, settings.trustedHops)
      putElsewhere(connections, settings.grpc)
      putLines(connections, settings.lines)
      putBodyLimits(connections, settings)
      putHopMark(connections, settings.hopMark)
      putKeptHeaders(connections, settings.headersToModels)
      putIdleTimeouts(connections)
      putOrigins(connections, settings.allowedOrigins)
      putTracing(connections, clusters, settings)
      if (settings.tracing !== undefined) setInScript(connections, 'IS_TRACED')
      if (settings.chargesUnusable) setInScript(connections, 'CHARGES_UNUSABLE')
    }
  }
  if (settings.heapBytes !== undefined) {
    const heap = named(bootstrap.overload_manager.resource_monitors, heapMonitor)
    heap.typed_config.max_heap_size_bytes = allocatorBytes(settings.heapBytes)
  }
  bootstrap.admin.address = toOwnAddress(settings.admin)
  pointAt(named(clusters, 'tollgate'), settings.grpc)
  pointAt(named(clusters, 'api'), settings.api)
  files.path = settings.clustersFile
  files.watched_directory.path = dirname(settings.clustersFile)
  if (settings.authoritiesFile !== undefined) {
    named(secrets, 'authorities').validation_context.trusted_ca.filename = settings.authoritiesFile
  }

  return `${JSON.stringify(bootstrap, null, 2)}\n`
}

const tls = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3'
const certificate = 'gateway'

/**
 * The text of the file that names the listener's certificate (with its chain) and key, both in PEM.
 * Envoy reads them again when a file is renamed into the certificate's folder.
 */
export function renderCertificate(certFile: string, keyFile: string): string {
  const resource = {
    '@type': `${tls}.Secret`,
    name: certificate,
    tls_certificate: {
      certificate_chain: { filename: certFile },
      private_key: { filename: keyFile },
      watched_directory: { path: dirname(certFile) },
    },
  }
  return `${JSON.stringify({ resources: [resource] })}\n`
}

/** Envoy watches only certificates that it gets by discovery. */
function tlsContext(certificateFile: string): object {
  const source = { path: certificateFile, watched_directory: { path: dirname(certificateFile) } }
  return {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': `${tls}.DownstreamTlsContext`,
      common_tls_context: {
        alpn_protocols: ['h2', 'http/1.1'],
        tls_certificate_sds_secret_configs: [
          {
            name: certificate,
            sds_config: { resource_api_version: 'V3', path_config_source: source },
          },
        ],
      },
    },
  }
}

/** The system's list of certificate authorities, at the path of its distribution. */
export function findAuthorities(
  exists: (path: string) => boolean = existsSync,
): string | undefined {
  return authorities.find(exists)
}

function named<Part extends { name: string }>(parts: readonly Part[], name: string): Part {
  const part = parts.find((candidate) => candidate.name === name)
  if (part === undefined) throw new Error(`the bootstrap template has no part named ${name}`)
  return part
}

/**
 * Retries of a Check go to another process, as retries of API calls do. With only one address the
 * predicate has no use and a cost, because Envoy creates it for each call.
 */
function putElsewhere(connections: Connections, grpc: readonly Address[]): void {
  if (grpc.length === 1 && !grpc.some(isHostName)) return
  const { retry_host_predicate, host_selection_retry_max_attempts } =
    connections.route_config.virtual_hosts
      .flatMap(({ routes }) => routes)
      .find(({ name }) => name === 'api')?.route?.retry_policy ?? {}
  for (const { typed_config } of connections.http_filters) {
    const policy = typed_config.grpc_service?.retry_policy
    if (policy === undefined) continue
    Object.assign(policy, { retry_host_predicate, host_selection_retry_max_attempts })
  }
}

/** Where the script writes lines, and Envoy's own log the others; the table is beside them. */
function putLines(connections: Connections, files: LinesFiles | undefined): void {
  const log = named(connections.access_log, 'lines')
  if (files === undefined) {
    connections.access_log = connections.access_log.filter((each) => each !== log)
    return
  }
  log.typed_config.path = files.envoy
  const places = `${toLua(files.script)}, ${toLua(files.head)}`
  putIntoScript(connections, 'local LINES, HEAD = "", ""', `local LINES, HEAD = ${places}`)
  const { ballast = '', table = '', lanes = '' } = files
  putIntoScript(connections, 'local BALLAST = ""', `local BALLAST = ${toLua(ballast)}`)
  putIntoScript(connections, 'local TABLE = ""', `local TABLE = ${toLua(table)}`)
  putIntoScript(connections, 'local LANES = ""', `local LANES = ${toLua(lanes)}`)
}

function setInScript(connections: Connections, name: string): void {
  putIntoScript(connections, `local ${name} = false`, `local ${name} = true`)
}

/** Replaces a line of the script of the filter gate. */
function putIntoScript(connections: Connections, written: string, line: string): void {
  const code = named(connections.http_filters, 'gate').typed_config.default_source_code
  const [before, after] = code?.inline_string.split(written) ?? []
  if (code === undefined || after === undefined) {
    throw new Error(`the script of the filter gate has no line ${written}`)
  }
  code.inline_string = `${before}${line}${after}`
}

/** A Lua string literal of any bytes: each byte is written as its number. */
function toLua(text: string): string {
  return `"${[...Buffer.from(text)].map((byte) => `\\${String(byte).padStart(3, '0')}`).join('')}"`
}

/** Envoy sends the address of the connection to Check. Behind proxies Check needs the header, too. */
function putTrustedHops(connections: Connections, hops: number | undefined): void {
  if (!hops) return
  connections.xff_num_trusted_hops = hops
  const asking = connections.http_filters.flatMap(
    ({ typed_config }) => typed_config.allowed_headers ?? [],
  )
  // Filters that share a configuration share its list.
  for (const { patterns } of new Set(asking)) patterns.push({ exact: 'x-forwarded-for' })
}

function putBodyLimits(connections: Connections, settings: BootstrapSettings): void {
  const { bodyLimit, bodyTimeoutMs } = settings
  if (bodyLimit !== undefined) {
    named(connections.http_filters, 'body_limit').typed_config.max_request_bytes = bodyLimit
  }
  if (bodyTimeoutMs !== undefined) connections.request_timeout = `${bodyTimeoutMs / 1_000}s`
}

/** The response headers that a page may read. */
const exposedHeaders = [
  'x-request-id',
  'request-id',
  'retry-after',
  'x-should-retry',
  'ratelimit',
  'ratelimit-policy',
  'x-ratelimit-limit-tokens',
  'x-ratelimit-remaining-tokens',
  'x-ratelimit-reset-tokens',
  'x-ratelimit-limit-requests',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-reset-requests',
  'anthropic-ratelimit-tokens-limit',
  'anthropic-ratelimit-tokens-remaining',
  'anthropic-ratelimit-tokens-reset',
  'anthropic-ratelimit-requests-limit',
  'anthropic-ratelimit-requests-remaining',
  'anthropic-ratelimit-requests-reset',
  'x-tollgate-budget-limit',
  'x-tollgate-budget-remaining',
  'x-tollgate-budget-reset',
  'x-tollgate-max-output-tokens',
  'x-tollgate-key-age',
  'x-tollgate-key-expires',
  'x-ext-auth-reason',
  'www-authenticate',
]

/**
 * Preflights are answered without a credential. Browser credentials (cookies) are never allowed:
 * pages send keys in a header.
 */
function putOrigins(connections: Connections, origins: readonly string[] | undefined): void {
  if (origins === undefined || origins.length === 0) return
  const policy = {
    '@type': 'type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy',
    allow_origin_string_match: origins.map((origin) =>
      origin === '*' ? { safe_regex: { regex: '.*' } } : { exact: origin },
    ),
    allow_methods: 'GET, HEAD, POST, PATCH, DELETE, OPTIONS',
    allow_headers: '*, authorization, idempotency-key',
    expose_headers: exposedHeaders.join(', '),
    max_age: '600',
  }
  for (const host of connections.route_config.virtual_hosts) {
    host.typed_per_filter_config = { ...host.typed_per_filter_config, cors: policy }
  }
}

/** Nothing can be exempt from a removal by prefix, so such a header is moved aside meanwhile. */
function putKeptHeaders(connections: Connections, names: ReadonlySet<string> = new Set()): void {
  const { mutations } = named(connections.early_header_mutation_extensions, 'ingress').typed_config
  const copy = (key: string, from: string) => ({
    append: {
      header: { key, value: `%REQ(${from})%` },
      append_action: 'OVERWRITE_IF_EXISTS_OR_ADD',
    },
  })
  for (const name of names) {
    const aside = `kept-${name}`
    mutations.unshift({ remove: aside }, copy(aside, name))
    mutations.push(copy(name, aside), { remove: aside })
  }
}

/** Marks requests to models, and refuses those that come back. */
function putHopMark({ route_config }: Connections, mark: string): void {
  for (const { routes } of route_config.virtual_hosts) {
    named(routes, 'hop').match.headers = [{ name: receivedHop, string_match: { contains: mark } }]
    for (const { route, name, request_headers_to_add: added = [] } of routes) {
      if (route?.cluster_header === undefined) continue
      const marks = added.filter(({ header }) => header.key === hopHeader)
      if (marks.length === 0) throw new Error(`the bootstrap's route ${name} sets no ${hopHeader}`)
      for (const { header } of marks) header.value = mark
    }
  }
}

/**
 * An idle timeout belongs to a route, so each route to models is repeated for each timeout. The usual ones are first: Envoy
 * takes the first that matches.
 */
function putIdleTimeouts({ route_config }: Connections): void {
  const name = 'x-tollgate-idle'
  for (const host of route_config.virtual_hosts) {
    const toModels = host.routes.filter(({ route }) => route?.cluster_header !== undefined)
    const usual = toModels.map((route) => {
      return withHeader(route, { name, present_match: true, invert_match: true })
    })
    const idle = toModels.flatMap((route) =>
      idleTimeouts.map((seconds) => ({
        ...withHeader(route, { name, string_match: { exact: `${seconds}s` } }),
        name: `${route.name}-idle-${seconds}`,
        route: { ...route.route, idle_timeout: `${seconds}s` },
      })),
    )
    host.routes = [...usual, ...idle, ...host.routes.filter((route) => !toModels.includes(route))]
  }
}

function withHeader(route: Route, header: object): Route {
  return { ...route, match: { ...route.match, headers: [header, ...(route.match.headers ?? [])] } }
}

function pointAt(cluster: Cluster, addresses: readonly Address[]): void {
  if (addresses.length === 0) throw new Error(`cluster ${cluster.name} needs an address`)
  // Envoy resolves names only in clusters of this type.
  if (addresses.some(isHostName)) {
    cluster.type = 'STRICT_DNS'
    cluster.dns_lookup_family = 'V4_PREFERRED'
    cluster.wait_for_warm_on_init = false
  }
  cluster.load_assignment.endpoints = [
    {
      lb_endpoints: addresses.map((address) => ({ endpoint: { address: toAddress(address) } })),
    },
  ]
}

/** Whether the address has a host name, which may have several addresses. */
export function isHostName(address: Address): boolean {
  return 'host' in address && isIP(address.host) === 0
}

/** A socket is for Envoy's own user, independent of the umask. */
function toOwnAddress(address: Address): object {
  return 'path' in address ? { pipe: { path: address.path, mode: 0o600 } } : toListener(address)
}

/** Envoy does not resolve names in listener addresses, so `localhost` becomes 127.0.0.1. */
function toListener(address: Address): object {
  const isLocal = 'host' in address && address.host === 'localhost'
  return toAddress(isLocal ? { ...address, host: '127.0.0.1' } : address)
}

function toAddress(address: Address): object {
  if ('path' in address) return { pipe: { path: address.path } }
  // As in the service, a listener at :: is for IPv4, too.
  const both = address.host === '::' ? { ipv4_compat: true } : {}
  return { socket_address: { address: address.host, port_value: address.port, ...both } }
}
