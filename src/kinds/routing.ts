/**
 * The foreign kinds that locate a model, as plain data: HTTPRoute and Gateway of the Gateway API, and KServe's
 * LLMInferenceService, with the fields that find-backend.ts needs.
 */

import type { Metadata } from './metadata.ts'

export interface HttpRoute {
  readonly kind: 'HTTPRoute'
  readonly metadata: Metadata
  /** Name of the inference service that it belongs to, in its namespace (contract, 7.3). */
  readonly service: string
  /** In lower case; may begin with `*.`. */
  readonly hostnames: readonly string[]
  /** The Gateways that it is attached to, as written. */
  readonly parents: readonly RouteParent[]
  readonly rules: readonly RouteRule[]
}

export interface RouteParent {
  /** `<namespace>/<name>`. */
  readonly gateway: string
  readonly section: string | undefined
  readonly port: number | undefined
  /** Why the gateway does not accept the route, or undefined if it does, or has not decided yet. */
  readonly refusal: string | undefined
  /** References of the route that the gateway cannot resolve, or may not use. */
  readonly unresolved: string | undefined
}

export interface RouteRule {
  /** The part of its paths before `/v1`; not for regular expressions. */
  readonly prefixes: readonly string[]
  /** Whether it matches every request with this prefix. */
  readonly isPlain: boolean
  /** Whether it has filters that change requests or responses. */
  readonly isFiltered: boolean
  /** Without backends of weight 0. */
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
  /** The listeners for HTTP and HTTPS. */
  readonly listeners: readonly GatewayListener[]
  /** Its names and IP addresses, from its status. */
  readonly addresses: readonly string[]
}

export interface GatewayListener {
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

/** The route of a model, besides the address. */
export interface Routing {
  /** The HTTPRoute of its backend, otherwise the model's first, if any. */
  readonly route: ModelRoute | undefined
  /** Why the model has no backend; empty if it has one. */
  readonly missing: string
  /** Routes to the model that bypass us, or undefined if our internal Gateway is not configured. */
  readonly bypasses: readonly Bypass[] | undefined
}

interface ModelRoute {
  readonly namespace: string
  readonly name: string
  /** `<namespace>/<name>`. */
  readonly gateway: string | undefined
  readonly hostnames: readonly string[]
}

/** Both `<namespace>/<name>`. */
interface Bypass {
  readonly route: string
  readonly gateway: string
}
