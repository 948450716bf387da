/**
 * ModelRef, ExternalModel, AccessPolicy, Subscription and Tenant (contract, 7.1), the tiers' ConfigMap, and the kinds
 * that locate models (routing.ts), as plain data. Fields that stay as written have their type from the schema;
 * parse-resource.ts maps the others.
 */

import type { FieldProblem } from '../formats/fields.ts'
import type { ValueOf } from '../formats/schema.ts'
import type { NamedLimit, Prices, Weights, WrittenCalendar } from './limits.ts'
import type { Metadata } from './metadata.ts'
import type { documentSchemas } from './resource-schemas.ts'
import type { Gateway, HttpRoute, InferenceService, Routing } from './routing.ts'

export { subscriptionNamespace, tenantsNamespace } from './metadata.ts'

/** The `spec` of a document of this kind, as written, with defaults where the schema has them. */
export type Spec<
  Kind extends
    | 'ModelRef'
    | 'ExternalModel'
    | 'ExternalModel.inference.opendatahub.io'
    | 'ExternalProvider'
    | 'AccessPolicy'
    | 'Subscription'
    | 'Tenant',
> = ValueOf<(typeof documentSchemas)[Kind]>['spec']

/** `<namespace>/<name>`. */
export function qualifiedName({ metadata }: Pick<Resource, 'metadata'>): string {
  return `${metadata.namespace}/${metadata.name}`
}

/** Namespace and name of a ModelRef, as other resources refer to it. */
export type ModelReference = Spec<'AccessPolicy'>['modelRefs'][number]

/** `<namespace>/<name>`, the key of the model. */
export function keyOfModel({ namespace, name }: ModelReference): string {
  return `${namespace}/${name}`
}

type WrittenLimit = Spec<'Subscription'>['modelRefs'][number]['tokenRateLimits'][number]

/** `limit` in tokens or requests, `window` as written. */
export type Limit = WrittenLimit & { readonly windowMs: number }

export interface BilledModel extends ModelReference {
  readonly tokenRateLimits: readonly Limit[]
  readonly requestRateLimits: readonly Limit[]
  /** Maximum number of concurrent requests of a user. */
  readonly concurrency: number | undefined
  /** Without exponents; either all tokens of input and output have a price, or it is undefined. */
  readonly billingRate: Prices | undefined
  /** Why it is undefined, if one is written. */
  readonly rateProblem?: FieldProblem
  /** If undefined, each token counts as one. */
  readonly weights: Weights | undefined
}

export type Attribution = Spec<'Subscription'>['tokenMetadata']

/** Names of users and groups. */
export interface Subjects {
  readonly users: readonly string[]
  readonly groups: readonly string[]
}

/** The credential of the gateway at a model's server. */
export interface ServerCredential {
  /** In lower case. */
  readonly header: string
  /** The text before the value. */
  readonly prefix: string
  /** A file in the folder of the resource's namespace below `SECRETS_DIR`. */
  readonly file: string | undefined
  /** An entry of a Secret in the resource's namespace; in a cluster it takes precedence over the file. */
  readonly secretRef: NonNullable<Spec<'ModelRef'>['credential']>['secretRef']
}

/** The connection to a model's server, besides its address (ours). */
export interface ModelServer {
  readonly credential: ServerCredential | undefined
  /** The server's name for the model, or undefined if the name in the body is forwarded. */
  readonly upstreamModel: string | undefined
  /** File with the authorities that sign the server's certificate, in the same folder as the credential. */
  readonly caFile: string | undefined
  /** Timeout for a connection; milliseconds. */
  readonly connectMs: number
  /** Maximum idle time of request and response, by default the gateway's five minutes. */
  readonly idleMs: number | undefined
  /** Timeout for a whole response, if any. */
  readonly answerMs: number | undefined
  /** Maximum number of retries for a request that could not connect. */
  readonly retries: number
  /** Whether all paths of the server are open, not only the known operations. */
  readonly allPaths: boolean
}

/** The fields of a ModelRef's `spec` that are mapped to `backend` and `server`. */
type Mapped =
  | 'modelRef'
  | 'timeouts'
  | 'paths'
  | 'limits'
  | (keyof ModelServer & keyof Spec<'ModelRef'>)

/** The other fields are in `spec`. join-routes.ts may have found `backendUrl`. */
export interface ModelRef extends Omit<Spec<'ModelRef'>, Mapped> {
  readonly kind: 'ModelRef'
  readonly metadata: Metadata
  readonly backend: Spec<'ModelRef'>['modelRef']
  /** Host header and TLS server name if they differ from `backendUrl`; found by join-routes.ts. */
  readonly backendHost?: string | undefined
  /** Other findings. */
  readonly routing?: Routing
  /** Why the address is refused; `backendUrl` is then undefined. */
  readonly addressProblem?: string
  readonly server: ModelServer
  readonly limits: readonly NamedLimit[]
}

/** The original's description of a hosted model: the server for the ModelRef that refers to it. */
export interface ExternalModel {
  readonly kind: 'ExternalModel'
  readonly metadata: Metadata
  readonly backendUrl: string | undefined
  readonly server: ModelServer
  /** A further name that requests may use for the model. */
  readonly modelName?: string | undefined
  /** Why there is no `backendUrl`. */
  readonly missing?: string
}

/** The original's newer ExternalModel, which choose-provider.ts converts into the one above. */
export interface ProvidedModel extends Spec<'ExternalModel.inference.opendatahub.io'> {
  readonly kind: 'ExternalModel.inference.opendatahub.io'
  readonly metadata: Metadata
}

/** A possible server for a ProvidedModel, and our key there. */
export interface ExternalProvider extends Spec<'ExternalProvider'> {
  readonly kind: 'ExternalProvider'
  readonly metadata: Metadata
}

export interface AccessPolicy {
  readonly kind: 'AccessPolicy'
  readonly metadata: Metadata
  readonly modelRefs: readonly ModelReference[]
  readonly subjects: Subjects
  readonly metering: Attribution
}

/** How a Subscription reserves room for requests in progress. */
export interface AdmissionRules {
  /** The share of a limit by which concurrent requests together may exceed it. */
  readonly overshoot: number
  /** The window that a response is counted in. */
  readonly charge: 'admission' | 'end'
}

/** Whether a limit only counts usage, or also reserves what requests in progress will use. */
export type AdmissionMode = 'count' | 'reserve'

export interface Subscription {
  readonly kind: 'Subscription'
  readonly metadata: Metadata
  readonly owner: Subjects
  /** The models in force. */
  readonly modelRefs: readonly BilledModel[]
  /** Limits by name, all enforceable: a faulty one takes the models to which it applies out of force. */
  readonly limits: readonly NamedLimit[]
  readonly calendar: WrittenCalendar | undefined
  /** Names of limits on cost without `per`: each user has one. */
  readonly ofEach?: readonly string[]
  /** Models that are named again: only their first entry counts. */
  readonly repeated?: readonly string[]
  /** Models whose entry, or a limit, has unknown fields: the Subscription pays for none of them. */
  readonly outOfForce?: readonly (ModelReference & { readonly problems: readonly FieldProblem[] })[]
  readonly attribution: Attribution
  readonly priority: number
  /** As written; compile-subscription.ts adds the settings. */
  readonly admission?: Spec<'Subscription'>['admission']
  /** Percentages of a limit at which a notice is sent. */
  readonly notifyAt?: readonly number[]
}

export interface Tenant {
  readonly kind: 'Tenant'
  readonly metadata: Metadata
  readonly limits: readonly NamedLimit[]
  readonly calendar: WrittenCalendar | undefined
  /** Why its limits or its calendar cannot be read; while set, no request is allowed. */
  readonly unreadable?: readonly FieldProblem[]
  /** `spec.apiKeys.maxExpirationDays`; takes precedence over the setting. */
  readonly maxExpirationDays: number | undefined
  readonly externalOidc: ExternalOidc | undefined
  /** Undefined if not written. */
  readonly telemetry: WrittenTelemetry | undefined
}

/** The original's newer configuration of its default tenant. */
interface AiTenant {
  readonly kind: 'AITenant'
  readonly metadata: Metadata
  /** `spec.oidc`: applies if the Tenant has none. */
  readonly externalOidc: ExternalOidc | undefined
}

type Telemetry = NonNullable<Spec<'Tenant'>['telemetry']>

/** The written fields of `spec.telemetry`: the labels of metrics. */
export type WrittenTelemetry = Pick<Telemetry, 'enabled'> & Telemetry['metrics']

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
  | ProvidedModel
  | ExternalProvider
  | AccessPolicy
  | Subscription
  | Tenant
  | AiTenant
  | TierMapping
  | HttpRoute
  | Gateway
  | InferenceService
