/**
 * ModelRef, ExternalModel, AccessPolicy, Subscription and Tenant (contract, 7.1), the tiers'
 * ConfigMap, and what tells where models are (routing.ts), as plain data. parse-resource.ts reads
 * them from documents.
 */

import type { Gateway, HttpRoute, InferenceService, Routing } from './routing.ts'

/** The one namespace in which AccessPolicies, Subscriptions and the Tenant are honoured. */
export const subscriptionNamespace = 'models-as-a-service'

export interface Metadata {
  readonly name: string
  readonly namespace: string
  readonly annotations: Readonly<Record<string, string>>
  /** Milliseconds since the epoch; undefined where the document names none. */
  readonly createdAt: number | undefined
  readonly deleting: boolean
  /** As written; only there while `deleting`. */
  readonly deletionTimestamp?: string
}

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

/** Who: names of users and of groups. */
export interface Subjects {
  readonly users: readonly string[]
  readonly groups: readonly string[]
}

/** How the gateway identifies itself to a model's server. */
export interface Credential {
  /** In lower case. */
  readonly header: string
  /** What stands before the value. */
  readonly prefix: string
  /** A file in the folder of the resource's namespace below `SECRETS_DIR`. */
  readonly file: string | undefined
  /** An entry of a Secret in the resource's namespace; in a cluster it counts before the file. */
  readonly secretRef: { readonly name: string; readonly key: string } | undefined
}

/** What `idleMs` may be in seconds, since the gateway needs routes for each. */
export const idleSeconds = [10, 30, 60, 120, 300, 600, 900, 1_800, 3_600] as const

/** How a model's server is spoken to, besides its address (ours). */
export interface ModelServer {
  readonly credential: Credential | undefined
  /** The name by which the server knows the model; undefined: the body's own stays. */
  readonly upstreamModel: string | undefined
  /** Of the authorities that vouch for the server, found as the credential's is. */
  readonly caFile: string | undefined
  /** How long a connection may take; milliseconds. */
  readonly connectMs: number
  /** How long request and answer may stand still; undefined: for the gateway's five minutes. */
  readonly idleMs: number | undefined
  /** How long a whole answer may take; undefined: as long as it likes. */
  readonly answerMs: number | undefined
  /** How often a request is sent again that found no connection. */
  readonly retries: number
  /** Whether all paths of the server are open, and not the known operations alone. */
  readonly allPaths: boolean
}

export interface ModelRef {
  readonly kind: 'ModelRef'
  readonly metadata: Metadata
  readonly backend: { readonly kind: string; readonly name: string }
  readonly endpointOverride: string | undefined
  /** Where the gateway sends the model's requests (ours): as written, else as join-routes.ts has found it. */
  readonly backendUrl: string | undefined
  /** What Host and the server name of TLS say where that is not what `backendUrl` does; as found. */
  readonly backendHost?: string | undefined
  /** What was found besides. */
  readonly routing?: Routing
  /** The ids under which the model's server lists it (ours). */
  readonly modelIds: readonly string[]
  readonly server: ModelServer
}

/** The original's description of a hosted model. It is the server of the ModelRef that names it. */
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
  /** `spec.apiKeys.maxExpirationDays`; wins over the setting. */
  readonly maxExpirationDays: number | undefined
  readonly externalOidc: ExternalOidc | undefined
  /** Undefined where none is written. */
  readonly telemetry: WrittenTelemetry | undefined
}

/** `spec.telemetry`, as far as it is written: which labels metrics have. */
export interface WrittenTelemetry {
  readonly enabled: boolean | undefined
  readonly captureOrganization: boolean | undefined
  readonly captureUser: boolean | undefined
  readonly captureGroup: boolean | undefined
  readonly captureModelUsage: boolean | undefined
}

/** `spec.externalOIDC`: one more provider of identity tokens. */
export interface ExternalOidc {
  readonly issuerUrl: string
  readonly clientId: string
  /** For how long a token that was believed is believed again unread. */
  readonly ttlSeconds: number
}

/** One legacy tier (contract, 3.9). */
export interface Tier {
  readonly name: string
  /** The name where none is written. */
  readonly displayName: string
  readonly description: string
  /** The higher wins. */
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
