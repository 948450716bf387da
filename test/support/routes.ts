import type { Resource } from '../../src/kinds/resources.ts'
import type { RoutingOptions } from '../../src/models/rules/find-backend.ts'
import { joinRoutes } from '../../src/models/rules/join-routes.ts'
import { parseResource } from '../../src/models/rules/reading/parse-resource.ts'
import { toEnd } from './to-end.ts'

/** Objects that others create in a cluster for a model `llm/<service>`, as parsed from YAML. */

export interface WrittenRoute {
  readonly name?: string
  readonly namespace?: string
  readonly service?: string
  readonly spec?: object
  readonly status?: object
  readonly metadata?: object
}

export const onGateway = { parentRefs: [{ name: 'models', namespace: 'gateways' }] }

/** The HTTPRoute of an inference service; by default to a Service of its name. */
export function httpRoute({
  service = 'small',
  name = `${service}-kserve-route`,
  namespace = 'llm',
  spec = { ...onGateway, rules: [toService(service)] },
  status,
  metadata = {},
}: WrittenRoute = {}) {
  const labels = {
    'app.kubernetes.io/component': 'llminferenceservice-router',
    'app.kubernetes.io/name': service,
    'app.kubernetes.io/part-of': 'llminferenceservice',
  }
  return {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'HTTPRoute',
    metadata: { name, namespace, labels, ...metadata },
    spec,
    ...(status && { status }),
  }
}

export function toService(name: string, port?: number | undefined, more: object = {}) {
  return { backendRefs: [{ name, port: port ?? 8000, ...more }] }
}

/** A rule as KServe writes it. */
export function toPool(service: string, prefix = `/llm/${service}`) {
  return {
    matches: [{ path: { type: 'PathPrefix', value: prefix } }],
    filters: [
      {
        type: 'URLRewrite',
        urlRewrite: { path: { type: 'ReplacePrefixMatch', replacePrefixMatch: '/' } },
      },
    ],
    backendRefs: [
      {
        group: 'inference.networking.k8s.io',
        kind: 'InferencePool',
        name: `${service}-inference-pool`,
        port: 8000,
      },
    ],
  }
}

/** The status that a gateway's controller gives a route. */
export function verdict(accepted: 'True' | 'False', message = '', resolved = 'True') {
  const parentRef = {
    group: 'gateway.networking.k8s.io',
    kind: 'Gateway',
    ...onGateway.parentRefs[0],
  }
  const conditions = [
    { type: 'Accepted', status: accepted, reason: 'R', message },
    { type: 'ResolvedRefs', status: resolved, reason: 'R', message },
  ]
  return { parents: [{ parentRef, controllerName: 'example.com/gateway', conditions }] }
}

export function gateway(
  listeners: readonly object[] = [{ name: 'http', port: 80, protocol: 'HTTP' }],
  addresses: readonly string[] = ['10.96.0.7'],
  name = 'models',
) {
  return {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'Gateway',
    metadata: { name, namespace: 'gateways' },
    spec: { gatewayClassName: 'istio', listeners },
    status: { addresses: addresses.map((value) => ({ type: 'IPAddress', value })) },
  }
}

export function inferenceService(status: object, name = 'small') {
  return {
    apiVersion: 'serving.kserve.io/v1alpha1',
    kind: 'LLMInferenceService',
    metadata: { name, namespace: 'llm' },
    spec: { model: { uri: 'hf://x/y' }, template: { containers: [{ name: 'main' }] } },
    status,
  }
}

/** The resources of documents; invalid ones are skipped, as in the service. */
export function readAll(documents: readonly unknown[]): readonly Resource[] {
  return documents.map(parseResource).flatMap((each) => ('resource' in each ? each.resource : []))
}

/** The resources as they are compiled, with the backends that were found. */
export function joinAll(documents: readonly unknown[], options?: RoutingOptions) {
  return joinResources(readAll(documents), options)
}

export function joinResources(resources: readonly Resource[], options?: RoutingOptions) {
  return toEnd(joinRoutes(resources, options))
}
