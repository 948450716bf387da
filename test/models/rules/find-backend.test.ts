import { type Test, test } from 'tap'
import type { ModelRef, Resource } from '../../../src/kinds/resources.ts'
import type { HttpRoute } from '../../../src/kinds/routing.ts'
import type { RoutingOptions } from '../../../src/models/rules/find-backend.ts'
import { defaultRouting } from '../../../src/models/rules/join-routes.ts'
import { parseResource } from '../../../src/models/rules/reading/parse-resource.ts'
import { modelRef } from '../../support/documents.ts'
import {
  gateway,
  httpRoute,
  inferenceService,
  joinAll,
  joinResources,
  onGateway,
  readAll,
  toPool,
  toService,
  verdict,
} from '../../support/routes.ts'

const small = modelRef('small', { backendUrl: undefined })

function find(documents: readonly unknown[], options?: RoutingOptions): ModelRef {
  const [ref, ...others] = joinAll([small, ...documents], options)
  if (ref?.kind !== 'ModelRef' || others.length > 0) throw new Error('expected only the ModelRef')
  return ref
}

const shown = ({ backendUrl, backendHost, routing }: ModelRef): string =>
  backendUrl === undefined ? `- ${routing?.missing}` : `${backendUrl} ${backendHost ?? ''}`.trim()

function table(t: Test, rows: Readonly<Record<string, readonly [string | RegExp, ...unknown[]]>>) {
  for (const [title, [expected, ...documents]] of Object.entries(rows)) {
    const found = shown(find(documents))
    if (typeof expected === 'string') t.equal(found, expected, title)
    else t.match(found, expected, title)
  }
}

const host = { hostnames: ['models.example.com'] }
const path = (value: string, type = 'PathPrefix') => ({ path: { type, value } })
const rules = (...all: readonly object[]) => ({ ...onGateway, rules: all })
const cluster = 'svc.cluster.local'

test('a plain route leads to its Service', async (t) => {
  const to = `http://small.llm.${cluster}.:8000`
  const plain = toService('small')
  table(t, {
    'any path': [`${to} small.llm.${cluster}`, httpRoute()],
    'the host of the route': [
      `${to} models.example.com`,
      httpRoute({ spec: { ...host, rules: [plain] } }),
    ],
    'a host that matches the wildcard': [
      `${to} small.example.com`,
      httpRoute({ spec: { hostnames: ['*.example.com'], rules: [plain] } }),
    ],
    'a full name takes precedence over a wildcard': [
      `${to} b.example.com`,
      httpRoute({ spec: { hostnames: ['*.example.com', 'b.example.com'], rules: [plain] } }),
    ],
    'the path of the route': [
      `${to}/llm/small small.llm.${cluster}`,
      httpRoute({ spec: { rules: [{ ...plain, matches: [path('/llm/small/')] }] } }),
    ],
    'the path before /v1': [
      `${to}/x small.llm.${cluster}`,
      httpRoute({ spec: { rules: [{ ...plain, matches: [path('/x/v1')] }] } }),
    ],
    'a second backend without weight is ignored': [
      `${to} small.llm.${cluster}`,
      httpRoute({
        spec: {
          rules: [{ backendRefs: [...plain.backendRefs, { name: 'b', port: 1, weight: 0 }] }],
        },
      }),
    ],
    'its Gateway has not reported a status': [`${to} small.llm.${cluster}`, httpRoute(), gateway()],
    'its Gateway accepts it': [
      `${to} small.llm.${cluster}`,
      httpRoute({ status: verdict('True') }),
    ],
  })
})

test('a route that is more than an address leads to the Gateway', async (t) => {
  const to = 'http://10.96.0.7:80'
  const plain = toService('small')
  const split = {
    backendRefs: [
      { name: 'a', port: 1 },
      { name: 'b', port: 1 },
    ],
  }
  const through = (spec: object) => [httpRoute({ spec }), gateway()]
  table(t, {
    'an InferencePool, as KServe creates it': [
      `${to}/llm/small models.example.com`,
      ...through({ ...rules(toPool('small')), ...host }),
    ],
    'an InferencePool with a rule for each operation': [
      `${to}/llm/small 10.96.0.7`,
      ...through(
        rules(
          toPool('small', '/llm/small/v1/completions'),
          toPool('small', '/llm/small/v1/chat/completions'),
          { ...plain, matches: [path('/llm/small')] },
        ),
      ),
    ],
    'a filter of the backend': [
      `${to} 10.96.0.7`,
      ...through(
        rules({
          backendRefs: [{ name: 's', port: 1, filters: [{ type: 'RequestHeaderModifier' }] }],
        }),
      ),
    ],
    'several backends': [`${to} 10.96.0.7`, ...through(rules(split))],
    'a required header': [
      `${to} 10.96.0.7`,
      ...through(rules({ ...plain, matches: [{ headers: [{ name: 'a', value: 'b' }] }] })),
    ],
    'a method': [`${to} 10.96.0.7`, ...through(rules({ ...plain, matches: [{ method: 'POST' }] }))],
    'a single operation': [
      `${to}/m 10.96.0.7`,
      ...through(rules({ ...plain, matches: [path('/m/v1/chat/completions', 'Exact')] })),
    ],
    'a Service of another namespace, which may not be granted': [
      `${to} 10.96.0.7`,
      ...through(rules(toService('small', 8000, { namespace: 'other' }))),
    ],
    'an unknown kind': [
      `${to} 10.96.0.7`,
      ...through(rules(toService('small', 8000, { group: 'example.com', kind: 'Thing' }))),
    ],
  })
})

test('listeners and addresses of a Gateway are selected', async (t) => {
  const pool = (more: object = host) => httpRoute({ spec: { ...rules(toPool('small')), ...more } })
  const at = (name: string) => ({ parentRefs: [{ ...onGateway.parentRefs[0], sectionName: name }] })
  const on = (name: string, port: number, protocol = 'HTTP', hostname?: string) => ({
    ...{ name, port, protocol },
    ...(hostname && { hostname }),
  })
  const both = [on('http', 80), on('https', 443, 'HTTPS')]
  table(t, {
    'TLS takes precedence': [
      'https://10.96.0.7:443/llm/small models.example.com',
      ...[pool(), gateway(both)],
    ],
    'the listener that the route names': [
      'http://10.96.0.7:80/llm/small models.example.com',
      ...[pool({ ...host, ...at('http') }), gateway(both)],
    ],
    'a listener that does not exist': [
      /has no listener for it/,
      pool({ ...host, ...at('x') }),
      gateway(both),
    ],
    'by port': [
      'http://10.96.0.7:80/llm/small models.example.com',
      pool({ ...host, parentRefs: [{ ...onGateway.parentRefs[0], port: 80 }] }),
      gateway(both),
    ],
    'no listener for HTTP': [/has no listener/, pool(), gateway([on('tcp', 9000, 'TCP')])],
    'another host': [/has no listener/, pool(), gateway([on('http', 80, 'HTTP', 'a.example.com')])],
    'the host that both have in common': [
      'http://10.96.0.7:80/llm/small a.example.com',
      pool({ hostnames: ['b.example.org', '*.example.com'] }),
      gateway([on('http', 80, 'HTTP', 'a.example.com')]),
    ],
    'two wildcards': [
      'http://10.96.0.7:80/llm/small small.a.example.com',
      pool({ hostnames: ['*.example.com'] }),
      gateway([on('http', 80, 'HTTP', '*.a.example.com')]),
    ],
    'only the listener has a host': [
      'http://10.96.0.7:80/llm/small small.example.com',
      pool({}),
      gateway([on('http', 80, 'HTTP', '*.example.com')]),
    ],
    'its Service before an external address': [
      `http://models-istio.gateways.${cluster}.:80/llm/small models.example.com`,
      pool(),
      gateway(undefined, ['203.0.113.4', `models-istio.gateways.${cluster}`]),
    ],
    IPv6: [
      'http://[fd00::7]:80/llm/small models.example.com',
      ...[pool(), gateway(undefined, ['fd00::7'])],
    ],
    'IPv6 without a host name': [
      'http://[fd00::7]:80/llm/small fd00::7',
      ...[pool({}), gateway(undefined, ['fd00::7'])],
    ],
    'none yet': [/the Gateway gateways\/models has no address yet/, pool(), gateway(undefined, [])],
    'an address that is not a host': [/that is not a host/, pool(), gateway(undefined, ['a b/c'])],
    'not there': [/the Gateway gateways\/models is not there/, pool()],
  })
})

test('a problem of the route keeps its model Pending', async (t) => {
  const of = (more: object) => httpRoute({ spec: { ...onGateway, ...more } })
  table(t, {
    'not accepted': [
      /^- the HTTPRoute llm\/small-kserve-route is not accepted by the Gateway gateways\/models: no listener$/,
      httpRoute({ status: verdict('False', 'no listener') }),
    ],
    'the address of its inference service is not used instead': [
      /is not accepted/,
      httpRoute({ status: verdict('False', 'no listener') }),
      inferenceService({ url: 'http://small.example.com' }),
    ],
    'a reference that is not granted': [
      /has a backend that is not resolved, according to the Gateway gateways\/models: not permitted/,
      httpRoute({
        spec: rules(toService('small', 80, { namespace: 'other' })),
        status: verdict('True', 'not permitted', 'False'),
      }),
      gateway(),
    ],
    'no rules': [/has no rules/, of({})],
    'no backend': [/names no backend/, of({ rules: [{}] })],
    'no port': [
      /names the Service llm\/small without a port/,
      of({ rules: [{ backendRefs: [{ name: 'small' }] }] }),
    ],
    'no prefix': [
      /has no path that is a prefix/,
      of({ rules: [{ ...toService('small'), matches: [path('/v[1]', 'RegularExpression')] }] }),
    ],
    'no Gateway': [
      /is attached to no Gateway, and needs one/,
      httpRoute({ spec: { rules: [toPool('small')] } }),
    ],
    'a parent that is a Service': [
      /is attached to no Gateway/,
      httpRoute({
        spec: { parentRefs: [{ group: '', kind: 'Service', name: 's' }], rules: [toPool('small')] },
      }),
    ],
    'no route at all': [
      /^- there is no HTTPRoute of the LLMInferenceService llm\/small, which/,
      gateway(),
    ],
  })
})

test('a document with an invalid address is not read', async (t) => {
  const of = (more: object) => httpRoute({ spec: { ...onGateway, ...more } })
  for (const [document, problem] of [
    [of({ rules: [toService('small', 70_000)] }), /port must be a whole number from 1 to 65535/],
    [of({ rules: [toService('small', 0)] }), /port must be/],
    [of({ rules: [toService('../x')] }), /name must be a DNS name/],
    [of({ hostnames: ['a b\r\nx: y'] }), /hostnames\[0\] must be a host name/],
    [of({ hostnames: ['*'] }), /must be a host name/],
    [of({ hostnames: 'a' }), /must be a list/],
    [of({ rules: [{ matches: [path('/a\n')] }] }), /value must be a path/],
    [of({ rules: [{ matches: [path('/a/../b')] }] }), /must have no/],
    [of({ rules: ['x'] }), /must be an object/],
    [gateway([{ name: 'h', port: 99_999, protocol: 'HTTP' }]), /port must be/],
    [gateway([{ name: 'h', port: 80, protocol: 'HTTP', hostname: 'a/b' }]), /hostname must be/],
    [inferenceService({ addresses: 'x' }), /addresses must be a list/],
  ] as const) {
    const result = parseResource(document)
    const problems = 'problems' in result ? result.problems : []
    t.match(problems.map(({ path, message }) => `${showLast(path)} ${message}`).join('; '), problem)
    t.equal(find([document]).backendUrl, undefined)
  }
})

function showLast(path: readonly (string | number)[]): string {
  const [last, before] = [path.at(-1), path.at(-2)]
  return typeof last === 'number' ? `${before}[${last}]` : `${last}`
}

test('without a route, the inference service gives the address', async (t) => {
  const address = (url: string, name?: string) => ({ url, ...(name && { name }) })
  const [inside, outside, secure] = [
    address('http://small.llm.svc:8000/', 'gateway-internal'),
    address('http://models.example.com/llm/small', 'gateway-external'),
    address('https://models.example.com/llm/small', 'gateway-external'),
  ]
  const url = 'https://small.example.com'
  table(t, {
    'external, with TLS': [
      secure.url,
      inferenceService({ addresses: [inside, outside, secure], url }),
    ],
    outside: [outside.url, inferenceService({ addresses: [inside, outside], url })],
    'the first address': [
      'http://small.llm.svc:8000',
      inferenceService({ addresses: [inside], url }),
    ],
    'its URL': [url, inferenceService({ addresses: [], url })],
    'nothing yet': [/which has no address yet/, inferenceService({})],
    'a URL of another scheme': [/whose address is no URL/, inferenceService({ url: 'ftp://a' })],
    'a URL with a password': [
      /whose address is no URL/,
      inferenceService({ url: 'http://a:b@c/' }),
    ],
    'a URL with a control character': [
      /whose address is no URL/,
      inferenceService({ url: 'http://a/\n' }),
    ],
    'another one': [/which does not exist/, inferenceService({ url }, 'other')],
  })
})

test('a configured backendUrl takes precedence, and the route is still shown', async (t) => {
  const written = modelRef('small', {})
  const route = httpRoute({ spec: { ...onGateway, ...host, rules: [toService('small')] } })
  const [ref] = joinAll([written, route])
  t.match(ref, { backendUrl: 'http://small.example:8000', backendHost: undefined })
  t.strictSame((ref as ModelRef).routing, {
    route: {
      namespace: 'llm',
      name: 'small-kserve-route',
      gateway: 'gateways/models',
      hostnames: ['models.example.com'],
    },
    missing: '',
    bypasses: undefined,
  })
})

test('the first of several routes that works is used', async (t) => {
  const to = (name: string, backend: string, more: object = {}) =>
    httpRoute({ name, spec: rules(toService(backend)), ...more })
  const first = to('a', 'first')
  const second = to('b', 'second')
  t.match(find([second, first]).backendUrl, 'http://first.llm.')
  const refused = to('a', 'first', { status: verdict('False', 'no') })
  t.match(find([second, refused]).backendUrl, 'http://second.llm.')
  t.match(find([second, refused]).routing?.route, { name: 'b' })
  const going = to('a', 'first', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })
  t.match(find([second, going]).backendUrl, 'http://second.llm.')
  t.match(find([to('a', 'x', { service: 'other' }), second]).backendUrl, 'http://second.llm.')
  t.match(find([to('a', 'x', { namespace: 'other' }), second]).backendUrl, 'http://second.llm.')
})

test('other routes are ignored without a note', async (t) => {
  const others = httpRoute({ metadata: { labels: { 'app.kubernetes.io/name': 'small' } } })
  t.strictSame(parseResource(others), { ignored: undefined })
  const grpc = { ...others, kind: 'GRPCRoute' }
  t.match(parseResource(grpc), { ignored: /v1 GRPCRoute is not one of our kinds/ })
})

test('Gateways that bypass ours are named', async (t) => {
  const internal: RoutingOptions = { ...defaultRouting, internalGateway: 'gateways/models' }
  const parents = (...names: readonly string[]) => ({
    parentRefs: names.map((name) => ({ name, namespace: 'gateways' })),
    rules: [toPool('small')],
  })
  const bypasses = (...documents: readonly unknown[]) => find(documents, internal).routing?.bypasses
  t.equal(bypasses(gateway()), undefined, 'without a route nothing is known')
  t.strictSame(bypasses(httpRoute()), [])
  const both = httpRoute({ spec: parents('public', 'models', 'public') })
  const way = { route: 'llm/small-kserve-route', gateway: 'gateways/public' }
  t.strictSame(bypasses(both), [way])
  t.match(
    find([both, gateway(), gateway(undefined, ['203.0.113.1'], 'public')], internal),
    {
      backendUrl: 'http://10.96.0.7:80/llm/small',
      routing: { route: { gateway: 'gateways/models' } },
    },
    'requests use our Gateway',
  )
  t.strictSame(bypasses(httpRoute({ spec: parents('public') })), [way])
  t.equal(find([both]).routing?.bypasses, undefined, 'without internalGateway nothing is known')
  const refused = verdict('False', 'no')
  t.strictSame(
    find([httpRoute({ status: refused })], { ...defaultRouting, internalGateway: 'a/b' }).routing
      ?.bypasses,
    [],
    'a Gateway that refuses the route is no bypass',
  )
})

test('joining the same routes again returns the same object', async (t) => {
  const resources = readAll([small, httpRoute(), gateway()])
  const [first] = joinResources(resources)
  t.equal(joinResources(resources)[0], first)
  const moved = resources.with(2, readAll([gateway(undefined, ['10.0.0.1'])])[0] as Resource)
  t.equal(joinResources(moved)[0], first, 'an irrelevant change has no effect')
  const other = readAll([httpRoute({ spec: rules(toService('other')) })])[0] as Resource
  const [second] = joinResources(resources.with(1, other))
  t.not(second, first)
  t.match(second, { backendUrl: /^http:\/\/other/ })
  const none = readAll([small])
  t.equal(joinResources(none), none, 'without any of these kinds the list itself is returned')
})

test('routes are read once however many models name their service', async (t) => {
  const bypassed: RoutingOptions = { ...defaultRouting, internalGateway: 'gateways/other' }
  const backend = { modelRef: { kind: 'LLMInferenceService', name: 'small' } }
  const models = Array.from({ length: 100 }, (_, i) =>
    modelRef(`m${i}`, { backendUrl: undefined, ...backend }),
  )
  // None has a backend, so that all are considered.
  const routes = Array.from({ length: 50 }, (_, i) =>
    httpRoute({ name: `r${i}`, spec: { ...onGateway, rules: [] } }),
  )
  let reads = 0
  const counted = readAll(routes).map((route) => {
    const { rules } = route as HttpRoute
    return Object.defineProperty({ ...route }, 'rules', {
      get() {
        reads += 1
        return rules
      },
    }) as Resource
  })
  const refs = readAll(models)
  const joined = joinResources([...refs, ...counted], bypassed) as readonly ModelRef[]
  t.equal(joined.length, 100)
  const one = reads / counted.length
  t.ok(one < 5, `each route is read ${one} times`)
  t.equal(joined[99]?.routing?.bypasses?.length, 50)
  t.equal(joined[99]?.routing?.bypasses, joined[0]?.routing?.bypasses, 'they share one list')
  const [changed] = readAll([httpRoute({ name: 'r0', spec: { ...onGateway, rules: [] } })])
  const after = joinResources([...refs, changed as Resource, ...counted.slice(1)], bypassed)
  t.equal(reads, one * 50, 'the others are not read again')
  t.equal(after[99], joined[99], 'no model has changed')
})
