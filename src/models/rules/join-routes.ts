/** Merges HTTPRoutes, Gateways and LLMInferenceServices into the ModelRefs that they lead to. */

import { appendTo, haveSameItems } from '../../formats/lists.ts'
import { memoizeLast } from '../../formats/memoize.ts'
import type { ModelRef, Resource } from '../../kinds/resources.ts'
import type { Gateway, HttpRoute, InferenceService } from '../../kinds/routing.ts'
import {
  type FollowedRoute,
  type FoundBackend,
  findBackend,
  followRoute,
  joinFollowed,
  noRoutes,
  type RoutingOptions,
  type ServiceRoutes,
} from './find-backend.ts'

const followed = memoizeLast<HttpRoute, FollowedRoute>()
/** By the first route of a service. */
const ofService = memoizeLast<HttpRoute, ServiceRoutes>()
/** For each ModelRef the backend that was found, and the ModelRef with it. */
const joined = memoizeLast<ModelRef, { readonly found: FoundBackend; readonly ref: ModelRef }>()

/** The default. */
export const defaultRouting: RoutingOptions = {
  internalGateway: undefined,
  clusterDomain: 'cluster.local',
}

/**
 * The resources without these kinds, and each ModelRef of an LLMInferenceService with its backend,
 * one per step. If nothing has changed for a ModelRef, it is the same object as before.
 */
export function* joinRoutes(
  resources: readonly Resource[],
  options: RoutingOptions = defaultRouting,
): Generator<void, readonly Resource[]> {
  const routes = new Map<string, HttpRoute[]>()
  const gateways = new Map<string, Gateway>()
  const services = new Map<string, InferenceService>()
  const others: Resource[] = []
  for (const resource of resources) {
    const { kind, metadata } = resource
    const { namespace, name } = metadata
    if (kind === 'HTTPRoute') {
      if (metadata.deleting) continue
      appendTo(routes, `${namespace}/${resource.service}`, resource)
    } else if (kind === 'Gateway') gateways.set(`${namespace}/${name}`, resource)
    else if (kind === 'LLMInferenceService') services.set(`${namespace}/${name}`, resource)
    else others.push(resource)
    yield
  }
  if (others.length === resources.length) return resources
  const byService = new Map<string, ServiceRoutes>()
  for (const [service, each] of routes) {
    if (each.length > 1) each.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    const all: FollowedRoute[] = []
    for (const route of each) {
      const from = [options, ...route.parents.map(({ gateway }) => gateways.get(gateway))]
      all.push(followed(route, from, () => followRoute(route, gateways, options)))
      yield
    }
    byService.set(
      service,
      ofService(each[0] as HttpRoute, all, () => joinFollowed(all)),
    )
  }
  for (const [index, resource] of others.entries()) {
    if (resource.kind !== 'ModelRef' || resource.backend.kind !== 'LLMInferenceService') continue
    const key = `${resource.metadata.namespace}/${resource.backend.name}`
    others[index] = join(resource, byService.get(key) ?? noRoutes, services.get(key))
    yield
  }
  return others
}

function join(
  ref: ModelRef,
  routes: ServiceRoutes,
  service: InferenceService | undefined,
): ModelRef {
  return joined(ref, [service, routes], (before) => {
    const found = findBackend(ref, routes, service)
    const isFound = before !== undefined && isEqual(before.found, found)
    return { found, ref: isFound ? before.ref : { ...ref, ...found } }
  }).ref
}

type Bypasses = NonNullable<FoundBackend['routing']['bypasses']>

/** All models of a service share one list, which may be long. */
const equalLists = memoizeLast<Bypasses, boolean>()
const noBypasses: Bypasses = []

function isEqual(one: FoundBackend, other: FoundBackend): boolean {
  const [a, b] = [bypassesOf(one), bypassesOf(other)]
  const texts = (all: Bypasses) => all.map(({ route, gateway }) => `${route} ${gateway}`)
  const areEqual = () => equalLists(a, [b], () => haveSameItems(texts(a), texts(b)))
  return toText(one) === toText(other) && (a === b || areEqual())
}

function bypassesOf({ routing }: FoundBackend): Bypasses {
  return routing.bypasses ?? noBypasses
}

function toText({ routing, ...address }: FoundBackend): string {
  return JSON.stringify([address, routing.route, routing.missing, routing.bypasses === undefined])
}
