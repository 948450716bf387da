/**
 * Where a model's requests go when its ModelRef does not say: the Service behind its HTTPRoute, or the
 * route's Gateway where more than an address stands between, else what its inference service says.
 */

import { isUrl } from './resource-schemas.ts'
import type { ModelRef } from './resources.ts'
import { keyOf } from './resources.ts'
import type {
  Gateway,
  HttpRoute,
  InferenceService,
  Listener,
  RouteBackend,
  RouteParent,
  RouteRule,
  Routing,
} from './routing.ts'

export interface RoutingOptions {
  /** `<namespace>/<name>` of the Gateway that nobody reaches but us; undefined: there is none. */
  readonly internalGateway: string | undefined
  /** What the names of Services end in, `cluster.local`. */
  readonly clusterDomain: string
}

/** What there is around a model. */
export interface Surroundings {
  /** Its HTTPRoutes, in order of their names. */
  readonly routes: readonly HttpRoute[]
  /** By `<namespace>/<name>`. */
  readonly gateways: ReadonlyMap<string, Gateway>
  readonly service: InferenceService | undefined
}

export interface FoundBackend {
  readonly backendUrl: string | undefined
  /** What Host and the server name of TLS say, where that is not what the URL does. */
  readonly backendHost: string | undefined
  readonly routing: Routing
}

type Place = { readonly url: string; readonly host: string | undefined }
/** A place, or why there is none. */
type Found = Place | string

/** Of a model whose ModelRef names an LLMInferenceService. A `backendUrl` that is written stays. */
export function findBackend(
  ref: ModelRef,
  around: Surroundings,
  options: RoutingOptions,
): FoundBackend {
  const found = around.routes.map((route) => ({ route, ...follow(route, ref, around, options) }))
  const chosen = found.find(({ place }) => typeof place !== 'string') ?? found[0]
  const place = chosen === undefined ? placeOfService(ref, around.service) : chosen.place
  const isWritten = ref.backendUrl !== undefined
  const isFound = !isWritten && typeof place !== 'string'
  return {
    backendUrl: isFound ? place.url : ref.backendUrl,
    backendHost: isFound ? place.host : undefined,
    routing: {
      route: chosen && {
        namespace: chosen.route.metadata.namespace,
        name: chosen.route.metadata.name,
        gateway: chosen.gateway,
        hostnames: chosen.route.hostnames,
      },
      missing: isWritten || typeof place !== 'string' ? '' : place,
      bypasses: bypassesOf(around.routes, options),
    },
  }
}

/** Where a route leads, and the Gateway that counts of those it hangs on. */
function follow(
  route: HttpRoute,
  ref: ModelRef,
  { gateways }: Surroundings,
  options: RoutingOptions,
): { readonly place: Found; readonly gateway: string | undefined } {
  const shown = `the HTTPRoute ${keyOf(route)}`
  const parents = inOrder(route.parents, options)
  const open = parents.filter(({ refusal }) => refusal === undefined)
  const first = open[0] ?? parents[0]
  const none = (problem: string) => ({ place: `${shown} ${problem}`, gateway: first?.gateway })
  if (first?.refusal !== undefined) {
    return none(`is not accepted by the Gateway ${first.gateway}: ${first.refusal}`)
  }
  const [rule, ...others] = route.rules
  if (rule === undefined) return none('has no rules')
  const isAlone = others.length === 0
  if (isAlone && first?.unresolved !== undefined) {
    return none(`leads nowhere, says the Gateway ${first.gateway}: ${first.unresolved}`)
  }
  if (isAlone && rule.backends.length === 0 && !rule.isFiltered) return none('names no backend')
  const prefix = prefixOf(route.rules)
  if (prefix === undefined) return none('has no path that is a prefix')

  const direct = isAlone ? directOf(rule, route) : undefined
  if (direct !== undefined) {
    if (direct.port === undefined) return none(`names the ${direct.shown} without a port`)
    const name = `${direct.name}.${direct.namespace}.svc.${options.clusterDomain}`
    const host = hostOf(route.hostnames, undefined, ref) ?? name
    const place = toPlace('http', absolute(name, options), direct.port, prefix, host)
    return {
      place: typeof place === 'string' ? `${shown} ${place}` : place,
      gateway: first?.gateway,
    }
  }
  if (open.length === 0) return none('hangs on no Gateway, and needs one')
  const problems: string[] = []
  for (const parent of open) {
    const place = throughGateway(gateways.get(parent.gateway), parent, route, prefix, ref, options)
    if (typeof place !== 'string') return { place, gateway: parent.gateway }
    problems.push(`the Gateway ${parent.gateway} ${place}`)
  }
  return none(`needs a Gateway: ${problems.slice(0, 3).join('; ')}`)
}

/** The internal Gateway goes before the others. */
function inOrder(
  parents: readonly RouteParent[],
  { internalGateway }: RoutingOptions,
): readonly RouteParent[] {
  const isInternal = ({ gateway }: RouteParent): boolean => gateway === internalGateway
  return [...parents.filter(isInternal), ...parents.filter((each) => !isInternal(each))]
}

/**
 * The Service that a rule leads to when nothing but its address stands between. One of another
 * namespace is left to the Gateway, which knows whether that is granted.
 */
function directOf(rule: RouteRule, { metadata }: HttpRoute): RouteBackend | undefined {
  const [backend, ...others] = rule.backends
  const isDirect = rule.isPlain && !rule.isFiltered && others.length === 0
  if (!isDirect || backend === undefined) return undefined
  return backend.isService && backend.namespace === metadata.namespace ? backend : undefined
}

/** The shortest: that of most paths. */
function prefixOf(rules: readonly RouteRule[]): string | undefined {
  const all = rules.flatMap(({ prefixes }) => prefixes)
  return all.toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1))[0]
}

function throughGateway(
  gateway: Gateway | undefined,
  parent: RouteParent,
  route: HttpRoute,
  prefix: string,
  ref: ModelRef,
  options: RoutingOptions,
): Found {
  if (gateway === undefined) return 'is not there'
  const listener = listenerOf(gateway, parent, route.hostnames)
  if (listener === undefined) return 'has no listener for it'
  const isLocal = (each: string): boolean => isInCluster(each, options)
  const address = gateway.addresses.find(isLocal) ?? gateway.addresses.find((each) => each !== '')
  if (address === undefined) return 'has no address yet'
  const host = hostOf(route.hostnames, listener.hostname, ref) ?? address
  const scheme = listener.isSecure ? 'https' : 'http'
  return toPlace(scheme, absolute(address, options), listener.port, prefix, host)
}

/** The one that the route names; else the first that fits, with TLS before one without. */
function listenerOf(
  { listeners }: Gateway,
  { section, port }: RouteParent,
  hostnames: readonly string[],
): Listener | undefined {
  const fitting = listeners.filter(
    (each) =>
      (section === undefined || each.name === section) &&
      (port === undefined || each.port === port) &&
      (hostnames.length === 0 || hostnames.some((host) => meet(host, each.hostname) !== undefined)),
  )
  return fitting.find(({ isSecure }) => isSecure) ?? fitting[0]
}

/** The first host that both take. What stands for `*` is the model's name. */
function hostOf(
  hostnames: readonly string[],
  listener: string | undefined,
  { metadata }: ModelRef,
): string | undefined {
  const all = hostnames.length === 0 && listener !== undefined ? ['*'] : hostnames
  const met = all.flatMap((host) => meet(host, listener) ?? [])
  const host = met.find((each) => !each.startsWith('*')) ?? met[0]
  return host?.replace(/^\*/, metadata.name)
}

/** The narrower of two host names, each of which may begin with `*.`; undefined: none fits both. */
function meet(host: string, other: string | undefined): string | undefined {
  if (other === undefined || host === other) return host
  if (host === '*') return other
  if (other.startsWith('*.') && host.endsWith(other.slice(1))) return host
  if (host.startsWith('*.') && other.endsWith(host.slice(1))) return other
  return undefined
}

/** What its status says: the address for callers outside, with TLS before one without (contract, 7.3). */
function placeOfService(ref: ModelRef, service: InferenceService | undefined): Found {
  const name = `${ref.metadata.namespace}/${ref.backend.name}`
  const nothing = `there is no HTTPRoute of the LLMInferenceService ${name}, `
  if (service === undefined) return `${nothing}which does not exist`
  const written = service.addresses.filter(({ url }) => url !== '')
  const outside = written.filter((each) => each.name === 'gateway-external')
  const secure = outside.find(({ url }) => url.startsWith('https:'))
  const url = (secure ?? outside[0] ?? written[0])?.url ?? service.url
  if (url === undefined || url === '') return `${nothing}which has no address yet`
  const fit = url.replace(/\/+$/, '')
  return isUrl(fit)
    ? { url: fit, host: undefined }
    : `${nothing}whose address is no URL like http://host`
}

function toPlace(
  scheme: string,
  address: string,
  port: number,
  prefix: string,
  host: string,
): Found {
  const shown = address.includes(':') ? `[${address}]` : address
  const url = `${scheme}://${shown}:${port}${prefix}`
  return isUrl(url) && isUrl(`http://${host.includes(':') ? `[${host}]` : host}`)
    ? { url, host }
    : 'has an address that is no host'
}

/** So that it is asked for as it is, and not with what the pod's own resolver would append. */
function absolute(name: string, options: RoutingOptions): string {
  return isInCluster(name, options) ? `${name}.` : name
}

function isInCluster(name: string, { clusterDomain }: RoutingOptions): boolean {
  return name.endsWith(`.svc.${clusterDomain}`)
}

/** Where the models' Gateway is named: every other one that takes a route of the model. */
function bypassesOf(
  routes: readonly HttpRoute[],
  { internalGateway }: RoutingOptions,
): Routing['bypasses'] {
  if (internalGateway === undefined || routes.length === 0) return undefined
  const found = routes.flatMap((route) =>
    route.parents
      .filter(({ gateway, refusal }) => gateway !== internalGateway && refusal === undefined)
      .map(({ gateway }) => ({ route: keyOf(route), gateway })),
  )
  return found.filter(
    (each, index) =>
      found.findIndex(({ route, gateway }) => route === each.route && gateway === each.gateway) ===
      index,
  )
}
