/**
 * The kinds of others that tell where a model is, as plain data: HTTPRoute and Gateway of the Gateway
 * API, and KServe's LLMInferenceService, as far as find-backend.ts looks at them.
 */

import type { Metadata } from './resources.ts'

export interface HttpRoute {
  readonly kind: 'HTTPRoute'
  readonly metadata: Metadata
  /** Name of the inference service whose router it is, in its namespace (contract, 7.3). */
  readonly service: string
  /** In lower case; one may begin with `*.`. */
  readonly hostnames: readonly string[]
  /** The Gateways that it hangs on, as written. */
  readonly parents: readonly RouteParent[]
  readonly rules: readonly RouteRule[]
}

export interface RouteParent {
  /** `<namespace>/<name>`. */
  readonly gateway: string
  readonly section: string | undefined
  readonly port: number | undefined
  /** Why the gateway does not take the route; undefined: it does, or has not said so yet. */
  readonly refusal: string | undefined
  /** What the gateway does not find, or may not use, of what the route names. */
  readonly unresolved: string | undefined
}

export interface RouteRule {
  /** What stands before `/v1` in its paths; not those of regular expressions. */
  readonly prefixes: readonly string[]
  /** Whether it takes every request whose path begins so. */
  readonly isPlain: boolean
  /** Whether filters of its own change requests or answers. */
  readonly isFiltered: boolean
  /** Without those whose weight is 0. */
  readonly backends: readonly RouteBackend[]
}

export interface RouteBackend {
  /** `<kind> <namespace>/<name>` */
  readonly shown: string
  readonly isService: boolean
  readonly namespace: string
  readonly name: string
  readonly port: number | undefined
}

export interface Gateway {
  readonly kind: 'Gateway'
  readonly metadata: Metadata
  /** Those for HTTP and HTTPS. */
  readonly listeners: readonly Listener[]
  /** Names and IP addresses by which it is reached, as its controller says. */
  readonly addresses: readonly string[]
}

export interface Listener {
  readonly name: string
  readonly hostname: string | undefined
  readonly port: number
  readonly isSecure: boolean
}

export interface InferenceService {
  readonly kind: 'LLMInferenceService'
  readonly metadata: Metadata
  readonly addresses: readonly { readonly name: string; readonly url: string }[]
  readonly url: string | undefined
}

/** What was found of a model's way, besides the address. */
export interface Routing {
  /** The HTTPRoute whose backend it is, else the first of the model's; undefined: it has none. */
  readonly route: ModelRoute | undefined
  /** Why nothing serves the model; empty where something does. */
  readonly missing: string
  /** Ways to the model that do not lead past us; undefined: which Gateway is ours alone is not known. */
  readonly bypasses: readonly Bypass[] | undefined
}

export interface ModelRoute {
  readonly namespace: string
  readonly name: string
  /** `<namespace>/<name>`. */
  readonly gateway: string | undefined
  readonly hostnames: readonly string[]
}

/** Both `<namespace>/<name>`. */
export interface Bypass {
  readonly route: string
  readonly gateway: string
}
