/**
 * A document → one of the resources, in both spellings of group and kinds. An invalid document
 * yields its problems and no resource, never half a policy.
 */

import { namesHost } from '../decision/snapshot.ts'
import { parseWindow } from '../formats/duration.ts'
import { type Field, type FieldProblem, readField } from '../formats/fields.ts'
import type { Metadata } from '../kinds/metadata.ts'
import {
  type AccessPolicy,
  type Attribution,
  type BilledModel,
  type ExternalOidc,
  type Limit,
  type ModelRef,
  type ModelReference,
  type Resource,
  type Subjects,
  type Subscription,
  subscriptionNamespace,
  type Tenant,
  type WrittenTelemetry,
} from '../kinds/resources.ts'
import { readExternalModel, readModelServer } from './parse-model-server.ts'
import { isModelRoute, routingReaders } from './parse-routing.ts'
import { documents, envelope, windowMessage } from './resource-schemas.ts'
import { isTierMapping, readTiers } from './tiers.ts'

/**
 * The result for a document: a resource; nothing, with a reason if one would expect a resource; or
 * its problems.
 */
export type ParseResult =
  | { readonly resource: Resource }
  | { readonly ignored: string | undefined }
  | { readonly problems: readonly FieldProblem[] }

const gatewayKinds = { HTTPRoute: 'HTTPRoute', Gateway: 'Gateway' } as const
const servingKinds = { LLMInferenceService: 'LLMInferenceService' } as const

const groups: Readonly<Record<string, Readonly<Record<string, Resource['kind']>>>> = {
  'tollgate.dev/v1alpha1': {
    ModelRef: 'ModelRef',
    AccessPolicy: 'AccessPolicy',
    Subscription: 'Subscription',
    Tenant: 'Tenant',
  },
  'maas.opendatahub.io/v1alpha1': {
    MaaSModelRef: 'ModelRef',
    MaaSAuthPolicy: 'AccessPolicy',
    MaaSSubscription: 'Subscription',
    ExternalModel: 'ExternalModel',
    Tenant: 'Tenant',
  },
  v1: { ConfigMap: 'ConfigMap' },
  'gateway.networking.k8s.io/v1': gatewayKinds,
  'gateway.networking.k8s.io/v1beta1': gatewayKinds,
  'serving.kserve.io/v1alpha1': servingKinds,
  'serving.kserve.io/v1alpha2': servingKinds,
}

/** The groups in which an unknown kind is a mistake. */
const ours = /^(tollgate\.dev|maas\.opendatahub\.io)\//

/** Namespaces that would shadow a route of the gateway. */
const routeNames = ['v1', 'internal', 'maas-api', 'health', 'docs', 'openapi.json']

/** Reads one document, parsed from YAML or JSON. */
export function parseResource(document: unknown): ParseResult {
  const problems: FieldProblem[] = []
  const head = readField(document, problems, envelope)
  if (!head.object()) return { problems }
  const apiVersion = head.at('apiVersion').requiredString()
  const written = head.at('kind').requiredString()
  if (problems.length > 0) return { problems }
  if (apiVersion === 'v1' && written === 'ConfigMap' && !isTierMapping(document)) {
    return { ignored: undefined }
  }
  const kinds = Object.hasOwn(groups, apiVersion) ? groups[apiVersion] : undefined
  const kind = kinds && Object.hasOwn(kinds, written) ? kinds[written] : undefined
  if (kind === undefined) {
    if (kinds === undefined || !ours.test(apiVersion)) {
      return { ignored: `${apiVersion} ${written} is not one of our kinds` }
    }
    head.at('kind').problem(`must be one of ${Object.keys(kinds).join(', ')}`)
    return { problems }
  }
  if (kind === 'HTTPRoute' && !isModelRoute(document)) return { ignored: undefined }
  const root = readField(document, problems, documents[kind])
  const resource = isRouting(kind)
    ? routingReaders[kind](root)
    : readers[kind](root, readMetadata(root.at('metadata'), kind))
  return problems.length > 0 ? { problems } : { resource }
}

type RoutingKind = keyof typeof routingReaders
type OwnKind = Exclude<Resource['kind'], RoutingKind>

function isRouting(kind: Resource['kind']): kind is RoutingKind {
  return Object.hasOwn(routingReaders, kind)
}

const readers: Record<OwnKind, (root: Field, metadata: Metadata) => Resource> = {
  ModelRef: readModelRef,
  ExternalModel: readExternalModel,
  AccessPolicy: readAccessPolicy,
  Subscription: readSubscription,
  Tenant: readTenant,
  ConfigMap: (root, metadata) => ({
    kind: 'ConfigMap',
    metadata,
    tiers: readTiers(root.at('data').at('tiers')),
  }),
}

function readMetadata(field: Field, kind: OwnKind): Metadata {
  field.object()
  const name = field.at('name').requiredString()
  const written = field.at('namespace').string()
  const isModel = kind === 'ModelRef' || kind === 'ExternalModel'
  const namespace = written ?? (isModel ? 'default' : subscriptionNamespace)
  if (isModel && routeNames.includes(namespace)) {
    field.at('namespace').problem(`"${namespace}" would hide a route of the gateway`)
  }
  if (!isModel && kind !== 'ConfigMap' && namespace !== subscriptionNamespace) {
    field.at('namespace').problem(`must be ${subscriptionNamespace}; others are not watched`)
  }
  const created = Date.parse(field.at('creationTimestamp').string() ?? '')
  const deleted = field.at('deletionTimestamp')
  const deletionTimestamp = deleted.string()
  return {
    name,
    namespace,
    annotations: field.at('annotations').strings(),
    createdAt: Number.isNaN(created) ? undefined : created,
    deleting: deleted.present,
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
  }
}

function readModelRef(root: Field, metadata: Metadata): ModelRef {
  const spec = root.at('spec')
  spec.object()
  if (metadata.name.length > 63) {
    root.at('metadata').at('name').problem('must have at most 63 characters to be referred to')
  }
  const backendUrl = spec.at('backendUrl').string()
  if (backendUrl !== undefined) checkUrl(spec.at('backendUrl'), backendUrl)
  const endpointOverride = spec.at('endpointOverride').string()
  if (endpointOverride !== undefined) checkUrl(spec.at('endpointOverride'), endpointOverride)
  const backend = spec.at('modelRef')
  backend.object()
  return {
    kind: 'ModelRef',
    metadata,
    backend: {
      kind: backend.at('kind').requiredString(),
      name: backend.at('name').requiredString(),
    },
    endpointOverride,
    backendUrl,
    modelIds: spec.at('modelIds').texts(),
    server: readModelServer(spec, backendUrl === undefined || namesHost(backendUrl)),
  }
}

/**
 * A text that matches the pattern of a URL may still be invalid: an IPv6 address, a Punycode name.
 */
function checkUrl(field: Field, text: string): void {
  if (!URL.canParse(text)) field.problem('must be a URL like http://host:port/path')
}

function readAccessPolicy(root: Field, metadata: Metadata): AccessPolicy {
  const spec = root.at('spec')
  spec.object()
  const subjects = readSubjects(spec.at('subjects'))
  if (subjects.users.length + subjects.groups.length === 0) {
    spec.at('subjects').problem('needs at least one group or user')
  }
  return {
    kind: 'AccessPolicy',
    metadata,
    modelRefs: spec.at('modelRefs').list().map(readReference),
    subjects,
    metering: readAttribution(spec.at('meteringMetadata')),
  }
}

function readSubscription(root: Field, metadata: Metadata): Subscription {
  const spec = root.at('spec')
  spec.object()
  return {
    kind: 'Subscription',
    metadata,
    owner: readSubjects(spec.at('owner')),
    modelRefs: withoutRepeats(spec.at('modelRefs').list().map(readBilledModel)),
    attribution: readAttribution(spec.at('tokenMetadata')),
    priority: spec.at('priority').integer() ?? 0,
  }
}

function readTenant(root: Field, metadata: Metadata): Tenant {
  if (metadata.name !== 'default-tenant') {
    root.at('metadata').at('name').problem('must be default-tenant; there is one Tenant')
  }
  const spec = root.inside('spec')
  return {
    kind: 'Tenant',
    metadata,
    maxExpirationDays: spec.inside('apiKeys').at('maxExpirationDays').integer(),
    externalOidc: readExternalOidc(spec.at('externalOIDC')),
    telemetry: readTelemetry(spec.at('telemetry')),
  }
}

function readTelemetry(telemetry: Field): WrittenTelemetry | undefined {
  if (!telemetry.present || !telemetry.object()) return undefined
  const metrics = telemetry.inside('metrics')
  return {
    enabled: telemetry.at('enabled').boolean(),
    captureOrganization: metrics.at('captureOrganization').boolean(),
    captureUser: metrics.at('captureUser').boolean(),
    captureGroup: metrics.at('captureGroup').boolean(),
    captureModelUsage: metrics.at('captureModelUsage').boolean(),
  }
}

function readExternalOidc(oidc: Field): ExternalOidc | undefined {
  if (!oidc.present || !oidc.object()) return undefined
  return {
    issuerUrl: oidc.at('issuerUrl').requiredString(),
    clientId: oidc.at('clientId').requiredString(),
    ttlSeconds: oidc.at('ttl').integer() ?? 300,
  }
}

function readReference(field: Field): ModelReference {
  field.object()
  return {
    namespace: field.at('namespace').requiredString(),
    name: field.at('name').requiredString(),
  }
}

function readBilledModel(field: Field): BilledModel {
  const perToken = field.inside('billingRate').at('perToken').string()
  return {
    ...readReference(field),
    tokenRateLimits: field.at('tokenRateLimits').list().map(readLimit),
    billingRate: perToken === undefined ? undefined : { perToken },
  }
}

function readLimit(field: Field): Limit {
  field.object()
  const limit = field.at('limit').requiredInteger()
  const window = field.at('window').requiredString()
  const windowMs = parseWindow(window)
  if (windowMs === undefined && window !== '') field.at('window').problem(windowMessage)
  return { limit, window, windowMs: windowMs ?? 0 }
}

function readSubjects(field: Field): Subjects {
  if (!field.present || !field.object()) return { users: [], groups: [] }
  return {
    users: field.at('users').texts(),
    groups: field
      .at('groups')
      .list()
      .map((group) => (group.object() ? group.at('name').requiredString() : '')),
  }
}

function readAttribution(field: Field): Attribution {
  if (field.present) field.object()
  return {
    organizationId: field.at('organizationId').string() ?? '',
    costCenter: field.at('costCenter').string() ?? '',
    labels: field.at('labels').strings(),
  }
}

/** If a Subscription names a model twice, the first entry counts (contract, 7.1). */
function withoutRepeats(models: readonly BilledModel[]): readonly BilledModel[] {
  const first = new Map<string, BilledModel>()
  for (const model of models) {
    const key = `${model.namespace}/${model.name}`
    if (!first.has(key)) first.set(key, model)
  }
  return [...first.values()]
}
