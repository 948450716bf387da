/** Merges HTTPRoutes, Gateways and LLMInferenceServices into the ModelRefs that they lead to. */

import { appendTo } from '../../formats/lists.ts'
import { memoizeLast } from '../../formats/memoize.ts'
import type { ModelRef, Resource } from '../../kinds/resources.ts'
import type { Gateway, HttpRoute, InferenceService } from '../../kinds/routing.ts'
import { type FoundBackend, findBackend, type RoutingOptions } from './find-backend.ts'

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
  for (const each of routes.values()) {
    if (each.length > 1) each.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
  }
  for (const [index, resource] of others.entries()) {
    if (resource.kind !== 'ModelRef' || resource.backend.kind !== 'LLMInferenceService') continue
    const key = `${resource.metadata.namespace}/${resource.backend.name}`
    others[index] = join(resource, routes.get(key) ?? [], gateways, services.get(key), options)
    yield
  }
  return others
}

function join(
  ref: ModelRef,
  routes: readonly HttpRoute[],
  gateways: ReadonlyMap<string, Gateway>,
  service: InferenceService | undefined,
  options: RoutingOptions,
): ModelRef {
  const parents = routes.flatMap((route) =>
    route.parents.map(({ gateway }) => gateways.get(gateway)),
  )
  const from = [options, service, ...routes, ...parents]
  return joined(ref, from, (before) => {
    const found = findBackend(ref, { routes, gateways, service }, options)
    const isFound = before !== undefined && JSON.stringify(before.found) === JSON.stringify(found)
    return { found, ref: isFound ? before.ref : { ...ref, ...found } }
  }).ref
}
