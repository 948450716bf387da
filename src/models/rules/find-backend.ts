/**
 * Finds a model's backend when its ModelRef gives none: the Service behind its HTTPRoute, or the route's Gateway if the
 * route does more than forward, otherwise the address in the inference service's status.
 */

import { isUrl } from '../../kinds/resource-schemas.ts'
import { type ModelRef, qualifiedName } from '../../kinds/resources.ts'
import type {
  Gateway,
  GatewayListener,
  HttpRoute,
  InferenceService,
  RouteBackend,
  RouteParent,
  RouteRule,
  Routing,
} from '../../kinds/routing.ts'

export interface RoutingOptions {
  /** `<namespace>/<name>` of the Gateway that only we can reach, if any. */
  readonly internalGateway: string | undefined
  /** The suffix of Service names, `cluster.local`. */
  readonly clusterDomain: string
}

/** What an HTTPRoute means for each model of its inference service. */
export interface FollowedRoute {
  readonly route: HttpRoute
  /** Without the model's name. */
  readonly address: Found
  /** The Gateway used among its parents. */
  readonly gateway: string | undefined
  readonly bypasses: Bypasses
}

/** What all HTTPRoutes of an inference service mean for each of its models. */
export interface ServiceRoutes {
  /** The first that has a backend, otherwise the first; undefined if there is none. */
  readonly chosen: FollowedRoute | undefined
  readonly bypasses: Bypasses
}

type Bypasses = Routing['bypasses']

export const noRoutes: ServiceRoutes = { chosen: undefined, bypasses: undefined }

export type FoundBackend = ReturnType<typeof findBackend>

type Address = { readonly url: string; readonly host: string | undefined }
/** An address, or why there is none. */
type Found = Address | string

/** For a model whose ModelRef names an LLMInferenceService. A `backendUrl` in the resource takes precedence. */
export function findBackend(
  ref: ModelRef,
  { chosen, bypasses }: ServiceRoutes,
  service: InferenceService | undefined,
) {
  const address = chosen === undefined ? addressOfService(ref, service) : addressFor(ref, chosen)
  const isWritten = ref.backendUrl !== undefined
  const isFound = !isWritten && typeof address !== 'string'
  return {
    backendUrl: isFound ? address.url : ref.backendUrl,
    /** Host header and TLS server name, where they differ from the URL. */
    backendHost: isFound ? address.host : undefined,
    routing: {
      route: chosen && {
        namespace: chosen.route.metadata.namespace,
        name: chosen.route.metadata.name,
        gateway: chosen.gateway,
        hostnames: chosen.route.hostnames,
      },
      missing: isWritten || typeof address !== 'string' ? '' : address,
      bypasses,
    } satisfies Routing,
  }
}

/** The address of a route, with the model's name, which fits there, in place of `*` in its host. */
function addressFor({ metadata }: ModelRef, { address }: FollowedRoute): Found {
  if (typeof address === 'string') return address
  return { ...address, host: address.host?.replace(/^\*/, metadata.name) }
}

/** Depends on the Gateways of the route's parents alone. A service may have many routes, and be named by many ModelRefs. */
export function followRoute(
  route: HttpRoute,
  gateways: ReadonlyMap<string, Gateway>,
  options: RoutingOptions,
): FollowedRoute {
  return { route, ...follow(route, gateways, options), bypasses: bypassesOf(route, options) }
}

/** `routes`: of one service, ordered by name. */
export function joinFollowed(routes: readonly FollowedRoute[]): ServiceRoutes {
  return {
    chosen: routes.find(({ address }) => typeof address !== 'string') ?? routes[0],
    bypasses: routes[0]?.bypasses && routes.flatMap(({ bypasses }) => bypasses ?? []),
  }
}

/** The backend of a route, and the Gateway used among its parents. */
function follow(
  route: HttpRoute,
  gateways: ReadonlyMap<string, Gateway>,
  options: RoutingOptions,
): { readonly address: Found; readonly gateway: string | undefined } {
  const shown = `the HTTPRoute ${qualifiedName(route)}`
  const parents = inOrder(route.parents, options)
  const open = parents.filter(({ refusal }) => refusal === undefined)
  const first = open[0] ?? parents[0]
  const none = (problem: string) => ({ address: `${shown} ${problem}`, gateway: first?.gateway })
  if (first?.refusal !== undefined) {
    return none(`is not accepted by the Gateway ${first.gateway}: ${first.refusal}`)
  }
  const [rule, ...others] = route.rules
  if (rule === undefined) return none('has no rules')
  const isAlone = others.length === 0
  if (isAlone && first?.unresolved !== undefined) {
    return none(
      `has a backend that is not resolved, according to the Gateway ${first.gateway}: ${first.unresolved}`,
    )
  }
  if (isAlone && rule.backends.length === 0 && !rule.isFiltered) return none('names no backend')
  const prefix = prefixOf(route.rules)
  if (prefix === undefined) return none('has no path that is a prefix')

  const direct = isAlone ? directOf(rule, route) : undefined
  if (direct !== undefined) {
    if (direct.port === undefined) return none(`names the ${direct.shown} without a port`)
    const name = `${direct.name}.${direct.namespace}.svc.${options.clusterDomain}`
    const host = hostOf(route.hostnames, undefined) ?? name
    const address = toAddress('http', absolute(name, options), direct.port, prefix, host)
    return {
      address: typeof address === 'string' ? `${shown} ${address}` : address,
      gateway: first?.gateway,
    }
  }
  if (open.length === 0) return none('is attached to no Gateway, and needs one')
  const problems: string[] = []
  for (const parent of open) {
    const address = throughGateway(gateways.get(parent.gateway), parent, route, prefix, options)
    if (typeof address !== 'string') return { address, gateway: parent.gateway }
    problems.push(`the Gateway ${parent.gateway} ${address}`)
  }
  return none(`needs a Gateway: ${problems.slice(0, 3).join('; ')}`)
}

/** The internal Gateway comes first. */
function inOrder(
  parents: readonly RouteParent[],
  { internalGateway }: RoutingOptions,
): readonly RouteParent[] {
  const isInternal = ({ gateway }: RouteParent): boolean => gateway === internalGateway
  return [...parents.filter(isInternal), ...parents.filter((each) => !isInternal(each))]
}

/**
 * The Service of a rule, if the rule only forwards to it. A Service in another namespace is left to
 * the Gateway, which checks whether that is granted.
 */
function directOf(rule: RouteRule, { metadata }: HttpRoute): RouteBackend | undefined {
  const [backend, ...others] = rule.backends
  const isDirect = rule.isPlain && !rule.isFiltered && others.length === 0
  if (!isDirect || backend === undefined) return undefined
  return backend.isService && backend.namespace === metadata.namespace ? backend : undefined
}

/** The shortest prefix: the one that covers most paths. */
function prefixOf(rules: readonly RouteRule[]): string | undefined {
  const all = rules.flatMap(({ prefixes }) => prefixes)
  return all.toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1))[0]
}

function throughGateway(
  gateway: Gateway | undefined,
  parent: RouteParent,
  route: HttpRoute,
  prefix: string,
  options: RoutingOptions,
): Found {
  if (gateway === undefined) return 'is not there'
  const listener = listenerOf(gateway, parent, route.hostnames)
  if (listener === undefined) return 'has no listener for it'
  const isLocal = (each: string): boolean => isInCluster(each, options)
  const address = gateway.addresses.find(isLocal) ?? gateway.addresses.find((each) => each !== '')
  if (address === undefined) return 'has no address yet'
  const host = hostOf(route.hostnames, listener.hostname) ?? address
  const scheme = listener.isSecure ? 'https' : 'http'
  return toAddress(scheme, absolute(address, options), listener.port, prefix, host)
}

/** The listener that the route names; otherwise the first that fits, preferring TLS. */
function listenerOf(
  { listeners }: Gateway,
  { section, port }: RouteParent,
  hostnames: readonly string[],
): GatewayListener | undefined {
  const fitting = listeners.filter(
    (each) =>
      (section === undefined || each.name === section) &&
      (port === undefined || each.port === port) &&
      (hostnames.length === 0 ||
        hostnames.some((host) => intersect(host, each.hostname) !== undefined)),
  )
  return fitting.find(({ isSecure }) => isSecure) ?? fitting[0]
}

/** The first host name that both accept, preferring one without `*`. */
function hostOf(hostnames: readonly string[], listener: string | undefined): string | undefined {
  const all = hostnames.length === 0 && listener !== undefined ? ['*'] : hostnames
  const shared = all.flatMap((host) => intersect(host, listener) ?? [])
  return shared.find((each) => !each.startsWith('*')) ?? shared[0]
}

/** The narrower of two host names, each of which may begin with `*.`, or undefined if no host has both. */
function intersect(host: string, other: string | undefined): string | undefined {
  if (other === undefined || host === other) return host
  if (host === '*') return other
  if (other.startsWith('*.') && host.endsWith(other.slice(1))) return host
  if (host.startsWith('*.') && other.endsWith(host.slice(1))) return other
  return undefined
}

/** The external address from an inference service's status, preferring TLS (contract, 7.3). */
function addressOfService(ref: ModelRef, service: InferenceService | undefined): Found {
  const name = `${ref.metadata.namespace}/${ref.backend.name}`
  const nothing = `there is no HTTPRoute of the LLMInferenceService ${name}, `
  if (service === undefined) return `${nothing}which does not exist`
  const named = service.addresses.filter(({ url }) => url !== '')
  const outside = named.filter((each) => each.name === 'gateway-external')
  const secure = outside.find(({ url }) => url.startsWith('https:'))
  const url = (secure ?? outside[0] ?? named[0])?.url ?? service.url
  if (url === undefined || url === '') return `${nothing}which has no address yet`
  const fit = url.replace(/\/+$/, '')
  return isUrl(fit)
    ? { url: fit, host: undefined }
    : `${nothing}whose address is no URL like http://host`
}

function toAddress(
  scheme: string,
  address: string,
  port: number,
  prefix: string,
  host: string,
): Found {
  const shown = address.includes(':') ? `[${address}]` : address
  const url = `${scheme}://${shown}:${port}${prefix}`
  const named = host.replace(/^\*/, 'any')
  return isUrl(url) && isUrl(`http://${named.includes(':') ? `[${named}]` : named}`)
    ? { url, host }
    : 'has an address that is not a host'
}

/** Absolute, so that the pod's resolver appends no search domain. */
function absolute(name: string, options: RoutingOptions): string {
  return isInCluster(name, options) ? `${name}.` : name
}

function isInCluster(name: string, { clusterDomain }: RoutingOptions): boolean {
  return name.endsWith(`.svc.${clusterDomain}`)
}

/** If the internal Gateway is configured: every other Gateway that accepts the route. */
function bypassesOf(route: HttpRoute, { internalGateway }: RoutingOptions): Bypasses {
  if (internalGateway === undefined) return undefined
  const others = route.parents.filter(
    ({ gateway, refusal }) => gateway !== internalGateway && refusal === undefined,
  )
  const names = new Set(others.map(({ gateway }) => gateway))
  return Array.from(names, (gateway) => ({ route: qualifiedName(route), gateway }))
}
