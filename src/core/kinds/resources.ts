/**
 * ModelRef, ExternalModel, AccessPolicy, Subscription and Tenant (contract, 7.1), the tiers'
 * ConfigMap, and the kinds that locate models (routing.ts), as plain data. parse-resource.ts reads
 * them from documents.
 */

import type { Metadata } from './metadata.ts'
import type { Gateway, HttpRoute, InferenceService, Routing } from './routing.ts'

/** The only namespace in which AccessPolicies, Subscriptions and the Tenant are read. */
export const subscriptionNamespace = 'models-as-a-service'

/** `<namespace>/<name>`. */
export function keyOf({ metadata }: Pick<Resource, 'metadata'>): string {
  return `${metadata.namespace}/${metadata.name}`
}

/** Namespace and name of a ModelRef, as other resources refer to it. */
export interface ModelReference {
  readonly namespace: string
  readonly name: string
}

export interface Limit {
  /** Tokens. */
  readonly limit: number
  /** As written, `1m`. */
  readonly window: string
  readonly windowMs: number
}

export interface BilledModel extends ModelReference {
  readonly tokenRateLimits: readonly Limit[]
  readonly billingRate: { readonly perToken: string } | undefined
}

export interface Attribution {
  readonly organizationId: string
  readonly costCenter: string
  readonly labels: Readonly<Record<string, string>>
}

/** Names of users and groups. */
export interface Subjects {
  readonly users: readonly string[]
  readonly groups: readonly string[]
}

/** How the gateway identifies itself to a model's server. */
export interface Credential {
  /** In lower case. */
  readonly header: string
  /** The text before the value. */
  readonly prefix: string
  /** A file in the folder of the resource's namespace below `SECRETS_DIR`. */
  readonly file: string | undefined
  /**
   * An entry of a Secret in the resource's namespace; in a cluster it takes precedence over the
   * file.
   */
  readonly secretRef: { readonly name: string; readonly key: string } | undefined
}

/** The values of `idleMs` in seconds; the gateway has routes for each. */
export const idleSeconds = [10, 30, 60, 120, 300, 600, 900, 1_800, 3_600] as const

/** The connection to a model's server, besides its address (ours). */
export interface ModelServer {
  readonly credential: Credential | undefined
  /** The server's name for the model; undefined: the name in the body is kept. */
  readonly upstreamModel: string | undefined
  /**
   * File with the authorities that sign the server's certificate, in the same folder as the
   * credential.
   */
  readonly caFile: string | undefined
  /** Timeout for a connection; milliseconds. */
  readonly connectMs: number
  /** How long request and response may be idle; undefined: the gateway's five minutes. */
  readonly idleMs: number | undefined
  /** Timeout for a whole response; undefined: none. */
  readonly answerMs: number | undefined
  /** How often a request that could not connect is retried. */
  readonly retries: number
  /** Whether all paths of the server are open, not only the known operations. */
  readonly allPaths: boolean
}

export interface ModelRef {
  readonly kind: 'ModelRef'
  readonly metadata: Metadata
  readonly backend: { readonly kind: string; readonly name: string }
  readonly endpointOverride: string | undefined
  /**
   * Where the gateway sends the model's requests (ours): as written, otherwise as found by
   * join-routes.ts.
   */
  readonly backendUrl: string | undefined
  /** Host header and TLS server name if they differ from `backendUrl`; as found. */
  readonly backendHost?: string | undefined
  /** Other findings. */
  readonly routing?: Routing
  /** Why its address is refused; `backendUrl` is then undefined. */
  readonly addressProblem?: string
  /** The ids that the model's server uses for it (ours). */
  readonly modelIds: readonly string[]
  readonly server: ModelServer
}

/** The original's description of a hosted model: the server of the ModelRef that refers to it. */
export interface ExternalModel {
  readonly kind: 'ExternalModel'
  readonly metadata: Metadata
  readonly backendUrl: string
  readonly server: ModelServer
}

export interface AccessPolicy {
  readonly kind: 'AccessPolicy'
  readonly metadata: Metadata
  readonly modelRefs: readonly ModelReference[]
  readonly subjects: Subjects
  readonly metering: Attribution
}

export interface Subscription {
  readonly kind: 'Subscription'
  readonly metadata: Metadata
  readonly owner: Subjects
  readonly modelRefs: readonly BilledModel[]
  readonly attribution: Attribution
  readonly priority: number
}

export interface Tenant {
  readonly kind: 'Tenant'
  readonly metadata: Metadata
  /** `spec.apiKeys.maxExpirationDays`; takes precedence over the setting. */
  readonly maxExpirationDays: number | undefined
  readonly externalOidc: ExternalOidc | undefined
  /** Undefined if not written. */
  readonly telemetry: WrittenTelemetry | undefined
}

/** `spec.telemetry`, as far as it is written: the labels of metrics. */
export interface WrittenTelemetry {
  readonly enabled: boolean | undefined
  readonly captureOrganization: boolean | undefined
  readonly captureUser: boolean | undefined
  readonly captureGroup: boolean | undefined
  readonly captureModelUsage: boolean | undefined
}

/** `spec.externalOIDC`: an additional provider of identity tokens. */
export interface ExternalOidc {
  readonly issuerUrl: string
  readonly clientId: string
  /** How long a verified token is cached. */
  readonly ttlSeconds: number
}

/** One legacy tier (contract, 3.9). */
export interface Tier {
  readonly name: string
  /** By default the name. */
  readonly displayName: string
  readonly description: string
  /** The highest level wins. */
  readonly level: number
  readonly groups: ReadonlySet<string>
}

/** The `v1` ConfigMap `tier-to-group-mapping`. */
export interface TierMapping {
  readonly kind: 'ConfigMap'
  readonly metadata: Metadata
  readonly tiers: readonly Tier[]
}

export type Resource =
  | ModelRef
  | ExternalModel
  | AccessPolicy
  | Subscription
  | Tenant
  | TierMapping
  | HttpRoute
  | Gateway
  | InferenceService
