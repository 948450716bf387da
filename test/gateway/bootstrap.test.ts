import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'tap'
import {
  type BootstrapSettings,
  fillBootstrapTemplate,
  findAuthorities,
} from '../../src/gateway/bootstrap.ts'
import {
  parseBootstrapTemplate,
  readBootstrapTemplate,
} from '../../src/gateway/bootstrap-template.ts'
import { noClusters, writeClusters } from '../../src/gateway/clusters.ts'
import { idleTimeouts } from '../../src/kinds/model-server-schema.ts'
import { isNamedByBody, isNamedByPath } from '../../src/operations/operations.ts'
import { modelHeaderPrefixes } from '../../src/settings/readers.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const template = readBootstrapTemplate()
const parsed = JSON.parse(JSON.stringify(parseBootstrapTemplate(template)))
const envoy = envoyPath()
const needsEnvoy = envoy === undefined ? 'no Envoy' : false

const renderBootstrap = (text: string, settings: BootstrapSettings) =>
  fillBootstrapTemplate(parseBootstrapTemplate(text), settings)

const settings = {
  gateway: { host: '0.0.0.0', port: 8443 },
  admin: { path: '/run/tollgate/admin.sock' },
  hopMark: 'hop-of-this-test',
  grpc: [{ host: '127.0.0.2', port: 9001 }, { path: '/run/tollgate/grpc.sock' }],
  api: [{ host: '::1', port: 9002 }],
  clustersFile: '/var/lib/tollgate/clusters.json',
}

const render = (changes = {}) =>
  JSON.parse(renderBootstrap(template, { ...settings, ...changes })) as Rendered

type Cluster = {
  name: string
  type: string
  load_assignment: { endpoints: { lb_endpoints: { endpoint: { address: unknown } }[] }[] }
}
type AccessLog = { name: string; typed_config: { path?: string } }
type Rendered = {
  overload_manager: {
    resource_monitors: { typed_config: { max_heap_size_bytes?: number } }[]
  }
  admin: { address: unknown }
  dynamic_resources: { cds_config: { path_config_source: unknown } }
  static_resources: {
    listeners: {
      address: unknown
      filter_chains: { filters: { typed_config: { access_log: AccessLog[] } }[] }[]
    }[]
    clusters: Cluster[]
    secrets: { validation_context: { trusted_ca: unknown } }[]
  }
}

const tcp = (address: string, port: number) => ({
  socket_address: { address, port_value: port },
})
const addressesOf = (rendered: Rendered, name: string) =>
  rendered.static_resources.clusters
    .filter((cluster) => cluster.name === name)
    .flatMap((cluster) => cluster.load_assignment.endpoints)
    .flatMap((group) => group.lb_endpoints.map(({ endpoint }) => endpoint.address))

test('Envoy ends an idle connection to the API before the service does', async (t) => {
  const api = render().static_resources.clusters.find(({ name }) => name === 'api')
  const [, seconds] = /"idle_timeout":"(\d+)s"/.exec(JSON.stringify(api)) ?? []
  t.ok(Number(seconds) <= 50, 'the service does so after a minute')
})

test('the settings replace every address', async (t) => {
  const rendered = render()
  t.strictSame(rendered.static_resources.listeners[0]?.address, tcp('0.0.0.0', 8443))
  t.strictSame(rendered.admin.address, { pipe: { path: '/run/tollgate/admin.sock', mode: 0o600 } })
  t.strictSame(addressesOf(rendered, 'tollgate'), [
    tcp('127.0.0.2', 9001),
    { pipe: { path: '/run/tollgate/grpc.sock' } },
  ])
  t.strictSame(addressesOf(rendered, 'api'), [tcp('::1', 9002)])
  t.strictSame(rendered.dynamic_resources.cds_config.path_config_source, {
    path: '/var/lib/tollgate/clusters.json',
    watched_directory: { path: '/var/lib/tollgate' },
  })
})

test('Envoy listens at the address of localhost, since it resolves no names there', async (t) => {
  const localhost = { host: 'localhost', port: 8443 }
  const rendered = render({ gateway: localhost, admin: { ...localhost, port: 9901 } })
  t.strictSame(rendered.static_resources.listeners[0]?.address, tcp('127.0.0.1', 8443))
  t.strictSame(rendered.admin.address, tcp('127.0.0.1', 9901))
})

test('Envoy listens at :: for IPv4 and IPv6', async (t) => {
  const [listener] = render({ gateway: { host: '::', port: 8443 } }).static_resources.listeners
  const { socket_address } = tcp('::', 8443)
  t.strictSame(listener?.address, { socket_address: { ...socket_address, ipv4_compat: true } })
})

interface Route {
  readonly name: string
  readonly match: { headers?: object[] }
  readonly route?: { readonly cluster_header?: string }
}

function routesOf(bootstrap: typeof parsed): Route[] {
  const [{ filter_chains }] = bootstrap.static_resources.listeners
  return filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes
}

/** The bootstrap without the routes for the idle timeouts of models. */
function withoutIdleTimeouts(bootstrap: typeof parsed): unknown {
  const routes = routesOf(bootstrap)
  const kept = routes.filter(({ name }) => !name.includes('-idle-'))
  routes.splice(0, routes.length, ...kept)
  for (const { match, route } of routes) {
    if (route?.cluster_header === undefined) continue
    match.headers?.shift()
    if (match.headers?.length === 0) delete match.headers
  }
  return bootstrap
}

test('the documented defaults reproduce the template', async (t) => {
  const rendered = renderBootstrap(template, {
    hopMark: 'replaced-by-the-mark',
    gateway: { host: '127.0.0.1', port: 8000 },
    admin: { path: '.data/envoy-admin.sock' },
    grpc: [{ host: '127.0.0.1', port: 8082 }],
    api: [{ host: '127.0.0.1', port: 8080 }],
    clustersFile: '.data/envoy/clusters.json',
    lines: { script: '', head: '', envoy: '.data/journal/usage.envoy.jsonl' },
  })
  t.strictSame(withoutIdleTimeouts(JSON.parse(rendered)), parsed)
})

test('lines are written where the settings say, by script and log, or not at all', async (t) => {
  const linesOf = (changes: object) => {
    const [{ filter_chains }] = JSON.parse(renderBootstrap(template, { ...settings, ...changes }))
      .static_resources.listeners
    const { access_log, http_filters } = filter_chains[0].filters[0].typed_config
    const log = access_log.find(({ name }: { name: string }) => name === 'lines')
    const gate = http_filters.find(({ name }: { name: string }) => name === 'gate')
    const code: string = gate.typed_config.default_source_code.inline_string
    return [log?.typed_config.path, /^local LINES, HEAD = (.*)$/m.exec(code)?.[1]]
  }
  t.strictSame(linesOf({}), [undefined, '"", ""'])
  const lines = { script: '/a"$&ö', head: '/h', envoy: '/run/usage.envoy.jsonl' }
  const written = '"\\047\\097\\034\\036\\038\\195\\182", "\\047\\104"'
  t.strictSame(linesOf({ lines }), ['/run/usage.envoy.jsonl', written])
})

function inScript(name: string, changes: object): string | undefined {
  const text = renderBootstrap(template, { ...settings, ...changes })
  return RegExp(`\\\\nlocal ${name} = (\\w+)\\\\n`).exec(text)?.[1]
}

test('scripts tell spans of figures only if there is a collector', async (t) => {
  t.equal(inScript('IS_TRACED', {}), 'false')
  t.equal(inScript('IS_TRACED', { tracing }), 'true')
})

test('scripts know whether a response without usable usage is charged', async (t) => {
  t.equal(inScript('CHARGES_UNUSABLE', {}), 'false')
  t.equal(inScript('CHARGES_UNUSABLE', { chargesUnusable: true }), 'true')
})

test('an eighth of the memory is left to the scripts', async (t) => {
  const limitOf = (changes: object) =>
    render(changes).overload_manager.resource_monitors[0]?.typed_config.max_heap_size_bytes
  t.equal(limitOf({ heapBytes: 2 ** 27 }), 112 * 2 ** 20)
  t.equal(limitOf({}), limitOf({ heapBytes: 2 ** 31 }))
})

test('the routes to models exist for each idle timeout', async (t) => {
  const written = routesOf(parsed).filter((route) => route.route?.cluster_header)
  const rendered = routesOf(render())
  const names = written.map(({ name }) => name)
  t.strictSame(names, ['model-as-is', 'model'], 'clients reach none of these: metadata decides')
  for (const { name, route } of written) {
    for (const seconds of idleTimeouts) {
      const clone = rendered.find((other) => other.name === `${name}-idle-${seconds}`)
      t.strictSame(clone?.route, { ...route, idle_timeout: `${seconds}s` })
      t.strictSame(clone?.match.headers?.[0], {
        name: 'x-tollgate-idle',
        string_match: { exact: `${seconds}s` },
      })
    }
  }
})

test('a cluster with a host name uses DNS', async (t) => {
  const typeOf = (grpc: object[]) =>
    render({ grpc }).static_resources.clusters.find(({ name }) => name === 'tollgate')?.type
  t.equal(typeOf([{ host: '127.0.0.1', port: 1 }, { path: '/a' }]), 'STATIC')
  t.equal(
    typeOf([
      { host: '127.0.0.1', port: 1 },
      { host: 'localhost', port: 2 },
    ]),
    'STRICT_DNS',
  )
})

test('Check is retried at another address if there is one', async (t) => {
  const one = { host: '127.0.0.1', port: 9001 }
  const policiesOf = (grpc: readonly object[]) => {
    const [{ filter_chains }] = JSON.parse(
      renderBootstrap(template, { ...settings, grpc: grpc as (typeof one)[] }),
    ).static_resources.listeners
    const { route_config, http_filters } = filter_chains[0].filters[0].typed_config
    const asked = http_filters.flatMap((filter: object) => policiesIn(filter))
    t.equal(asked.length, 3, 'authenticate, check, check_again')
    const [{ routes }] = route_config.virtual_hosts
    const { route } = routes.find(({ name }: { name: string }) => name === 'api')
    return { asked, called: route.retry_policy }
  }
  for (const several of [[one, { path: '/run/b.sock' }], [{ host: 'tollgate', port: 9001 }]]) {
    const { asked, called } = policiesOf(several)
    for (const policy of asked) {
      t.match(policy.retry_host_predicate, [{ name: /previous_hosts/ }])
      t.strictSame(policy.retry_host_predicate, called.retry_host_predicate)
      t.equal(policy.host_selection_retry_max_attempts, 3)
      t.equal(policy.num_retries, 2)
    }
  }
  for (const only of [one, { host: '::1', port: 9001 }, { path: '/run/a.sock' }]) {
    const { asked, called } = policiesOf([only])
    t.ok(called.retry_host_predicate)
    for (const policy of asked) {
      t.notOk('retry_host_predicate' in policy)
      t.equal(policy.num_retries, 2, 'still retried')
    }
  }
})

/** How a filter, or the one in a composite, retries its calls. */
function policiesIn(part: unknown): readonly Record<string, unknown>[] {
  if (typeof part !== 'object' || part === null) return []
  const { grpc_service: service, ...others } = part as {
    grpc_service?: { retry_policy: Record<string, unknown> }
  }
  return [...(service ? [service.retry_policy] : []), ...Object.values(others).flatMap(policiesIn)]
}

test('a file of authorities replaces the default', async (t) => {
  const authorities = (changes = {}) =>
    render(changes).static_resources.secrets[0]?.validation_context.trusted_ca
  t.strictSame(authorities({ authoritiesFile: '/ca.pem' }), { filename: '/ca.pem' })
  t.strictSame(authorities(), { filename: '/etc/ssl/certs/ca-certificates.crt' })
})

test('finds the first known list of authorities', async (t) => {
  const known = ['/etc/ssl/cert.pem', '/etc/pki/tls/certs/ca-bundle.crt']
  t.equal(
    findAuthorities((path) => known.includes(path)),
    '/etc/pki/tls/certs/ca-bundle.crt',
  )
  t.equal(
    findAuthorities(() => false),
    undefined,
  )
})

test('trusts proxies in front only if configured', async (t) => {
  const hops = (changes = {}) =>
    render(changes).static_resources.listeners[0]?.filter_chains[0]?.filters[0]?.typed_config
  t.match(hops({ trustedHops: 2 }), { xff_num_trusted_hops: 2 })
  t.notOk(Object.hasOwn(hops({ trustedHops: 0 }) ?? {}, 'xff_num_trusted_hops'))
  const sent = (changes: object) =>
    JSON.stringify(hops(changes)).split('{"exact":"x-forwarded-for"}').length - 1
  t.strictSame([sent({ trustedHops: 2 }), sent({})], [3, 0], 'and only then Check gets the header')
})

test('throws if a part of the template is missing', async (t) => {
  t.throws(() => render({ grpc: [] }), { message: 'cluster tollgate needs an address' })
  t.throws(() => renderBootstrap(template.replace('- name: gateway', '- name: other'), settings), {
    message: 'the bootstrap template has no part named gateway',
  })
})

const tracing = {
  endpoint: 'https://collector.example/otlp/v1/traces',
  protocol: 'http/protobuf',
  headers: 'Authorization=Basic%20abc, x-team = a',
  timeoutMs: 10_000,
  share: 0.25,
  serviceName: 'tollgate-gateway',
} as const

test('Envoy accepts the rendered bootstrap', { skip: needsEnvoy }, async (t) => {
  const directory = temporaryFolder(t)
  await writeClusters(directory, noClusters)
  for (const [name, changes] of Object.entries({
    tcp: { admin: { host: '127.0.0.1', port: 0 }, grpc: [{ host: 'localhost', port: 1 }] },
    unix: {},
    lines: {
      lines: { script: '/none', head: '/none', envoy: join(directory, 'usage.envoy.jsonl') },
    },
    tracing: { tracing },
    grpc: {
      tracing: { ...tracing, protocol: 'grpc' as const, endpoint: 'http://127.0.0.1:4317' },
    },
  })) {
    const file = join(directory, `${name}.json`)
    const clustersFile = join(directory, 'clusters.json')
    await writeFile(file, renderBootstrap(template, { ...settings, ...changes, clustersFile }))
    await t.resolves(validate(file, directory), name)
  }
})

test('Envoy accepts the template with its scripts', { skip: needsEnvoy }, async (t) => {
  const directory = temporaryFolder(t, { 'bootstrap.json': JSON.stringify(parsed) })
  // Its relative paths are resolved in Envoy’s working directory.
  await mkdir(join(directory, '.data/journal'), { recursive: true })
  await writeClusters(join(directory, '.data/envoy'), noClusters)
  await t.resolves(validate(join(directory, 'bootstrap.json'), directory))
})

function validate(file: string, cwd: string): Promise<unknown> {
  return promisify(execFile)(envoy ?? 'envoy', ['--mode', 'validate', '-c', file], { cwd })
}

test('the routes and Check agree on which bodies are read', async (t) => {
  /** The regular expression of a route; Envoy matches it against the whole path. */
  const expression = (name: string) => {
    const [, found = ''] =
      new RegExp(`- name: ${name}\\n.*?regex: '([^']+)'`, 's').exec(template) ?? []
    return new RegExp(`^(?:${found})$`)
  }
  const [byPath, byBody, uploads] = ['path-read', 'body-large', 'body-none'].map(expression)
  for (const operation of [
    ...['chat/completions', 'completions', 'embeddings', 'responses', 'messages', 'rerank'],
    ...['messages/count_tokens', 'score', 'moderations', 'images/generations', 'audio/speech'],
    'detokenize',
    ...['audio/transcriptions', 'audio/translations', 'images/edits', 'images/variations', 'files'],
    ...[
      'files/file-1',
      'files/file-1/content',
      'batches',
      'batches/b/cancel',
      'models',
      'tokenize',
    ],
    ...['responses/resp_1', 'chat', 'messages/batches'],
  ]) {
    const path = `/v1/${operation}`
    t.equal(byPath?.test(`/llm/sim${path}`), isNamedByBody(path), `by path: ${operation}`)
    t.equal(byBody?.test(path), isNamedByBody(path), `by body: ${operation}`)
    t.equal(uploads?.test(path), isNamedByPath(path), `uploads: ${operation}`)
  }
})

test('the gateway sends spans only if a collector is set', async (t) => {
  const text = renderBootstrap(template, settings)
  t.notMatch(text, '"tracing"')
  t.notMatch(text, '"otel"')
  const traced = renderBootstrap(template, { ...settings, tracing })
  t.match(traced, '"random_sampling"')
  const { clusters, listeners } = JSON.parse(traced).static_resources
  const connections = listeners[0].filter_chains[0].filters[0].typed_config
  t.match(connections.tracing, {
    client_sampling: { value: 0 },
    random_sampling: { value: 25 },
    provider: {
      typed_config: {
        service_name: 'tollgate-gateway',
        http_service: {
          http_uri: { uri: tracing.endpoint },
          request_headers_to_add: [
            { header: { key: 'authorization', value: 'Basic abc' } },
            { header: { key: 'x-team', value: 'a' } },
          ],
        },
      },
    },
  })
  t.match(clusters.at(-1), { name: 'otel', type: 'STRICT_DNS', transport_socket: Object })
})

test('removes trace headers of clients unless they are trusted', async (t) => {
  const removals = (trustsTraces: boolean) =>
    ['traceparent', 'tracestate', 'x-client-trace-id'].filter((name) =>
      renderBootstrap(template, { ...settings, trustsTraces }).includes(`"remove": "${name}"`),
    )
  t.equal(removals(false).length, 3)
  t.equal(removals(true).length, 0)
})

test('the setting takes the headers that are removed by a prefix, but our own', async (t) => {
  const prefixes = [...template.matchAll(/remove_on_match: \{ key_matcher: \{ prefix: ([\w-]+)/g)]
  const ours = ['x-tollgate-', 'x-envoy-']
  const removed = prefixes.map(([, prefix = '']) => prefix).filter((each) => !ours.includes(each))
  t.strictSame(removed, modelHeaderPrefixes)
})

test('routes to models without an idle timeout of their own are tried first', async (t) => {
  const names = routesOf(render()).map(({ name }) => name)
  t.strictSame(names.slice(0, 2), ['model-as-is', 'model'])
  t.equal(
    names.findLastIndex((name) => name.startsWith('model')),
    2 * idleTimeouts.length + 1,
  )
})

test('one expression removes all headers by their prefixes and names, but our own', async (t) => {
  const regexes = [
    ...renderBootstrap(template, settings).matchAll(/"regex": "\(\?i\)(\(x-llm.*)"/g),
  ]
  t.equal(regexes.length, 1)
  const expression = new RegExp(`^${regexes[0]?.[1]}$`, 'i')
  for (const prefix of modelHeaderPrefixes) {
    t.match(`${prefix}more`, expression)
    t.match(prefix.toUpperCase(), expression)
    t.notMatch(`a${prefix}`, expression)
  }
  const names = [...template.matchAll(/^ +- remove: ([\w-]+)$/gm)].map(([, name = '']) => name)
  t.ok(names.length > 20)
  for (const name of names) {
    const isOfTrace = ['traceparent', 'tracestate', 'x-client-trace-id'].includes(name)
    t.equal(new RegExp(`^(${regexes[0]?.[1]})$`).test(name), !isOfTrace, name)
  }
  for (const name of ['authorization', 'x-request-id', 'x-slo', 'x-tollgate-hop'])
    t.notMatch(name, expression)
})
