/**
 * A document → one of the resources, in both spellings of group and kinds. An invalid document
 * yields its problems and no resource, never half a policy.
 */

import { type FieldPath, type FieldProblem, readFields, valueAt } from '../../../formats/fields.ts'
import { appendTo } from '../../../formats/lists.ts'
import { nearestName } from '../../../formats/nearest-name.ts'
import type { Schema, ValueOf } from '../../../formats/schema.ts'
import { parseWindow } from '../../../formats/time.ts'
import { findUnknownFields, type UnknownField } from '../../../formats/unknown-fields.ts'
import { toCalendar, toNamedLimit, toPrices, toWeights } from '../../../kinds/limit-schemas.ts'
import { type Metadata, subscriptionNamespace } from '../../../kinds/metadata.ts'
import { documentSchemas, envelopeSchema } from '../../../kinds/resource-schemas.ts'
import {
  type BilledModel,
  type ExternalOidc,
  keyOfModel,
  type Resource,
  type Spec,
  type Subjects,
  type Subscription,
  type Tenant,
  type Tier,
} from '../../../kinds/resources.ts'
import { defaultTenant } from '../compile.ts'
import {
  acceptedKindNames,
  originalGroup,
  originalKinds,
  originalModelKinds,
  originalModelsGroup,
} from '../original/original-kinds.ts'
import { isTierMapping } from '../original/tiers.ts'
import { restorePrunedFields } from './last-applied.ts'
import { containsLimits, fieldsOfLimits, isLimitPath } from './limit-fields.ts'
import { toExternalModel, toModelServer } from './parse-model-server.ts'
import { isModelRoute, toGateway, toHttpRoute, toInferenceService } from './parse-routing.ts'

/**
 * The result for a document: a resource, with the problems despite which it is in force; nothing, with a reason if one
 * would expect a resource; or only problems.
 */
type ParseResult =
  | { readonly resource: Resource; readonly problems: readonly FieldProblem[] }
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
  [`${originalGroup}/v1alpha1`]: originalKinds,
  [`${originalModelsGroup}/v1alpha1`]: originalModelKinds,
  v1: { ConfigMap: 'ConfigMap' },
  'gateway.networking.k8s.io/v1': gatewayKinds,
  'gateway.networking.k8s.io/v1beta1': gatewayKinds,
  'serving.kserve.io/v1alpha1': servingKinds,
  'serving.kserve.io/v1alpha2': servingKinds,
}

/** The groups in which an unknown kind is a mistake. */
const ours = ['tollgate.dev/', `${originalGroup}/`] as const

/**
 * Whether a Tenant of an unknown group was meant to be ours: Kubernetes has no such kind, and other groups have
 * other names.
 */
function isMisspeltTenant(apiVersion: string, kind: string): boolean {
  if (nearestName(kind, acceptedKindNames('Tenant')) === undefined) return false
  const [group = '', version] = apiVersion.split('/')
  const known = ['tollgate.dev', 'tollgate', originalGroup, 'opendatahub']
  return (
    version === undefined ||
    [group, ...group.split('.')].some((each) => nearestName(each, known) !== undefined)
  )
}

/** Reads one document, parsed from YAML or JSON. */
export function parseResource(document: unknown): ParseResult {
  const problems: FieldProblem[] = []
  const { apiVersion, kind: named } = readFields(document, envelopeSchema, problems) ?? {}
  if (problems.length > 0) return { problems }
  if (apiVersion === 'v1' && named === 'ConfigMap' && !isTierMapping(document)) {
    return { ignored: undefined }
  }
  const id = `${apiVersion} ${named}`
  const kinds = Object.hasOwn(groups, apiVersion) ? groups[apiVersion] : undefined
  const kind = kinds && Object.hasOwn(kinds, named) ? kinds[named] : undefined
  if (kind === undefined) {
    const group = ours.find((each) => apiVersion.startsWith(each))
    const isOurs = group !== undefined || isMisspeltTenant(apiVersion, named)
    if (!isOurs) return { ignored: `${id} is not one of our kinds` }
    if (kinds === undefined || group === undefined) {
      const known = Object.keys(groups).filter((each) => each.startsWith(group ?? ours[0]))
      return { problems: [{ path: ['apiVersion'], message: `must be ${known.join(' or ')}` }] }
    }
    const message = `must be one of ${Object.keys(kinds).join(', ')}`
    return { problems: [{ path: ['kind'], message }] }
  }
  // The default tenant has the name of its namespace.
  if (kind === 'AITenant' && isAnother(document, 'name', subscriptionNamespace)) {
    return { ignored: `${id} is of another tenant than ${subscriptionNamespace}` }
  }
  if (kind === 'HTTPRoute' && !isModelRoute(document)) return { ignored: undefined }
  return readers[kind](document)
}

/** Whether this field of its metadata says, legibly, that it is another one. */
function isAnother(document: unknown, field: 'name' | 'namespace', own: string): boolean {
  const written = valueAt(document, ['metadata', field])
  return typeof written === 'string' && written !== own
}

type Reader = (document: unknown) => ParseResult

/**
 * Reads documents of a kind. An unknown field is ignored. If it is in an entry of the lists that `entries` names, the
 * entry is out of force, which its resource records; if it is in another closed object, or is a misspelt or misplaced
 * `spec.limits` or `spec.calendar`, or has one of these in it, the document is out of force. `check` finds what no
 * schema can express; `salvage` returns what stays in force of a document that is not.
 */
function reader<Raw>(
  schema: Schema<Raw>,
  toResource: (raw: Raw, found: Found) => Resource,
  { entries = [], check, salvage }: More<Raw> = {},
): Reader {
  const ofSpec = schema.properties?.spec?.properties ?? {}
  const ofLimits = fieldsOfLimits.filter((name) => Object.hasOwn(ofSpec, name))
  return (document) => {
    const problems: FieldProblem[] = []
    const raw = readFields(document, schema, problems)
    const written = restorePrunedFields(document, schema)
    const losesLimits = (path: FieldPath): boolean =>
      isLimitPath(path, ofLimits) || containsLimits(valueAt(written, path), ofLimits)
    const unknown = findUnknownFields(written, schema, losesLimits)
    const inEntries: FieldProblem[] = []
    for (const { closed, ...problem } of unknown) {
      const isEntry = closed && entries.some((list) => entryOf(closed, list) !== undefined)
      const isMild = closed === undefined && !losesLimits(problem.path)
      if (isEntry) inEntries.push(problem)
      else problems.push({ ...problem, isMild })
    }
    if (problems.every(({ isMild }) => isMild)) problems.push(...(check?.(raw) ?? []))
    if (problems.every(({ isMild }) => isMild)) {
      return { resource: toResource(raw, { document, unknown, problems }), problems }
    }
    // Without a resource nothing else reports these, and one may be the misspelt name of a missing field.
    const all = [...problems, ...inEntries]
    const resource = salvage?.(raw, all, written)
    return resource === undefined ? { problems: all } : { resource, problems: all }
  }
}

interface Found {
  /** As written, without defaults. */
  readonly document: unknown
  readonly unknown: readonly UnknownField[]
  readonly problems: readonly FieldProblem[]
}

interface More<Raw> {
  readonly entries?: readonly string[]
  readonly check?: (raw: Raw) => readonly FieldProblem[]
  readonly salvage?: (
    raw: Raw,
    problems: readonly FieldProblem[],
    written: unknown,
  ) => Resource | undefined
}

/** Reads documents of a kind of which only a part is ours: its own definition knows the other fields. */
function partReader<Raw>(schema: Schema<Raw>, toResource: (raw: Raw) => Resource): Reader {
  return (document) => {
    const problems: FieldProblem[] = []
    const raw = readFields(document, schema, problems)
    return problems.length > 0 ? { problems } : { resource: toResource(raw), problems }
  }
}

/** The index of a closed object in the list `spec.<list>`, or undefined if it is not in it. */
function entryOf([, field, index]: FieldPath, list: string): number | undefined {
  return field === list ? Number(index) : undefined
}

const readers: Record<Resource['kind'], Reader> = {
  ModelRef: reader(documentSchemas.ModelRef, ({ metadata, spec }) => {
    const { modelRef, credential, upstreamModel, caFile, timeouts, retries, paths, ...ours } = spec
    const server = toModelServer(spec)
    const limits = spec.limits.map(toNamedLimit)
    const mapped = { metadata: toMetadata(metadata), backend: modelRef, server, limits }
    return { kind: 'ModelRef', ...ours, ...mapped }
  }),
  ExternalModel: reader(documentSchemas.ExternalModel, ({ metadata, spec }) =>
    toExternalModel(toMetadata(metadata), spec),
  ),
  'ExternalModel.inference.opendatahub.io': reader(
    documentSchemas['ExternalModel.inference.opendatahub.io'],
    ({ metadata, spec }) => ({
      kind: 'ExternalModel.inference.opendatahub.io',
      metadata: toMetadata(metadata),
      ...spec,
    }),
  ),
  ExternalProvider: reader(documentSchemas.ExternalProvider, ({ metadata, spec }) => ({
    kind: 'ExternalProvider',
    metadata: toMetadata(metadata),
    ...spec,
  })),
  AccessPolicy: reader(documentSchemas.AccessPolicy, ({ metadata, spec }) => ({
    kind: 'AccessPolicy',
    metadata: toMetadata(metadata),
    modelRefs: spec.modelRefs,
    subjects: toSubjects(spec.subjects),
    metering: spec.meteringMetadata,
  })),
  Subscription: reader(
    documentSchemas.Subscription,
    ({ metadata, spec }, { document, unknown, problems }) => ({
      kind: 'Subscription',
      metadata: toMetadata(metadata),
      owner: toSubjects(spec.owner),
      ...toBilledModels(spec, unknown, problems),
      limits: spec.limits.map(toNamedLimit),
      calendar: spec.calendar && toCalendar(spec.calendar),
      ...ofEachIn(document),
      attribution: spec.tokenMetadata,
      priority: spec.priority,
      ...(spec.admission && { admission: spec.admission }),
      ...(spec.notify && { notifyAt: spec.notify.at }),
    }),
    { entries: ['modelRefs', 'limits'], check: ({ spec }) => strangersIn(spec) },
  ),
  Tenant: reader(
    documentSchemas.Tenant,
    ({ metadata, spec }) => ({
      kind: 'Tenant',
      metadata: toMetadata(metadata),
      maxExpirationDays: spec.apiKeys?.maxExpirationDays,
      externalOidc: spec.externalOIDC && toExternalOidc(spec.externalOIDC),
      telemetry: toTelemetry(spec),
      limits: spec.limits.map(toNamedLimit),
      calendar: spec.calendar && toCalendar(spec.calendar),
    }),
    { salvage: salvageTenant },
  ),
  AITenant: reader(documentSchemas.AITenant, ({ metadata, spec }) => ({
    kind: 'AITenant',
    metadata: toMetadata(metadata),
    externalOidc: spec.oidc && toExternalOidc(spec.oidc),
  })),
  ConfigMap: partReader(documentSchemas.ConfigMap, ({ metadata, data }) => ({
    kind: 'ConfigMap',
    metadata: toMetadata(metadata),
    tiers: data.tiers.map(toTier),
  })),
  HTTPRoute: partReader(documentSchemas.HTTPRoute, toHttpRoute),
  Gateway: partReader(documentSchemas.Gateway, toGateway),
  LLMInferenceService: partReader(documentSchemas.LLMInferenceService, toInferenceService),
}

type Document<Kind extends keyof typeof documentSchemas> = ValueOf<(typeof documentSchemas)[Kind]>

function toMetadata(raw: Document<'ModelRef'>['metadata']): Metadata {
  const { name, namespace, annotations, creationTimestamp, deletionTimestamp } = raw
  const created = Date.parse(creationTimestamp ?? '')
  return {
    name,
    namespace,
    annotations,
    createdAt: Number.isNaN(created) ? undefined : created,
    deleting: deletionTimestamp !== undefined,
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
  }
}

function toSubjects({ users, groups }: Spec<'Subscription'>['owner']): Subjects {
  return { users, groups: groups.map(({ name }) => name) }
}

function toBilledModel(
  raw: Spec<'Subscription'>['modelRefs'][number],
  rateProblem: FieldProblem | undefined,
): BilledModel {
  const { namespace, name, tokenRateLimits, requestRateLimits, concurrency } = raw
  const toLimit = ({ limit, window }: { readonly limit: number; readonly window: string }) => {
    return { limit, window, windowMs: parseWindow(window) ?? 0 }
  }
  return {
    namespace,
    name,
    tokenRateLimits: tokenRateLimits.map(toLimit),
    requestRateLimits: requestRateLimits?.map(toLimit) ?? [],
    concurrency,
    billingRate: raw.billingRate && toPrices(raw.billingRate),
    ...(rateProblem && { rateProblem }),
    weights: raw.weights && toWeights(raw.weights),
  }
}

function toTelemetry({ telemetry }: Spec<'Tenant'>): Tenant['telemetry'] {
  return telemetry && { enabled: telemetry.enabled, ...telemetry.metrics }
}

/**
 * Keeps the limits, the rules for keys and those for metrics of a Tenant with other errors: without them all users would
 * have more. If the limits themselves are faulty, or may be in a place where they cannot be read, the Tenant records
 * that, and no request is allowed.
 */
function salvageTenant(
  { metadata, spec }: Document<'Tenant'>,
  problems: readonly FieldProblem[],
  written: unknown,
): Tenant | undefined {
  const { name, namespace } = defaultTenant.metadata
  if (isAnother(written, 'name', name) || isAnother(written, 'namespace', namespace))
    return undefined
  const isNamed = metadata?.name && metadata.namespace
  const hides = ({ path }: FieldProblem): boolean =>
    (path.length === 1 && path[0] === 'spec') ||
    isLimitPath(path) ||
    containsLimits(valueAt(written, path)) ||
    (!isNamed && containsLimits(valueAt(written, ['spec'])))
  const unreadable = problems.filter((problem) => !problem.isMild && hides(problem))
  const isWell = unreadable.length === 0 && spec !== undefined
  const isLegible = (field: string): boolean =>
    !problems.some(({ path, isMild }) => !isMild && path[0] === 'spec' && path[1] === field)
  const maxExpirationDays = isLegible('apiKeys') ? spec?.apiKeys?.maxExpirationDays : undefined
  const telemetry = spec && isLegible('telemetry') ? toTelemetry(spec) : undefined
  const isLimited = !isWell || spec.limits.length > 0 || spec.calendar !== undefined
  if (!isLimited && (!isNamed || (maxExpirationDays ?? telemetry) === undefined)) return undefined
  return {
    ...defaultTenant,
    ...(isNamed && { metadata: { ...toMetadata(metadata), annotations: {} } }),
    maxExpirationDays,
    telemetry,
    limits: isWell ? spec.limits.map(toNamedLimit) : [],
    calendar: isWell ? spec.calendar && toCalendar(spec.calendar) : undefined,
    ...(!isWell && { unreadable }),
  }
}

function toExternalOidc(raw: NonNullable<Spec<'Tenant'>['externalOIDC']>): ExternalOidc {
  const { issuerUrl, clientId, ttl } = raw
  return { issuerUrl, clientId, ttlSeconds: ttl }
}

function toTier(raw: Document<'ConfigMap'>['data']['tiers'][number]): Tier {
  const { name, displayName = name, description, level, groups } = raw
  return { name, displayName, description, level, groups: new Set(groups) }
}

function byEntry(
  unknown: readonly UnknownField[],
  list: string,
): ReadonlyMap<number, FieldProblem[]> {
  const found = new Map<number, FieldProblem[]>()
  for (const field of unknown) {
    const index = field.closed && entryOf(field.closed, list)
    if (index !== undefined) appendTo(found, index, field)
  }
  return found
}

function ofEachIn(document: unknown): Pick<Subscription, 'ofEach'> {
  const { spec } = document as Written
  const ofEach = (spec.limits ?? []).filter(({ of, per }) => of === 'cost' && !per)
  return ofEach.length > 0 ? { ofEach: ofEach.map(({ name }) => name) } : {}
}

/** The parts of a valid Subscription that are read as written. */
interface Written {
  readonly spec: {
    readonly limits?:
      | readonly { readonly name: string; readonly of?: string; readonly per?: string }[]
      | null
  }
}

/** A limit on a model that the Subscription does not include would not limit the one that was meant. */
function strangersIn({ modelRefs, limits }: Spec<'Subscription'>): readonly FieldProblem[] {
  const known = new Set(modelRefs.map(keyOfModel))
  return limits.flatMap(({ models = [] }, index) =>
    models.flatMap((model, at) => {
      if (known.has(keyOfModel(model))) return []
      const message = `names ${keyOfModel(model)}, which is not among spec.modelRefs`
      return { path: ['spec', 'limits', index, 'models', at], message }
    }),
  )
}

/** If a Subscription names a model twice, the first entry counts (contract, 7.1), also if that one is not in force. */
function toBilledModels(
  { modelRefs: entries, limits }: Spec<'Subscription'>,
  unknown: readonly UnknownField[],
  problems: readonly FieldProblem[],
): Pick<Subscription, 'modelRefs' | 'outOfForce' | 'repeated'> {
  const problemsOfRates = problems.filter(({ path }) => path[3] === 'billingRate')
  const ofRates = Map.groupBy(problemsOfRates, ({ path }) => Number(path[2]))
  const inLimits = byEntry(unknown, 'limits')
  const inModels = byEntry(unknown, 'modelRefs')
  const problemsOf = (index: number, key: string): readonly FieldProblem[] => [
    ...(inModels.get(index) ?? []),
    ...[...inLimits].flatMap(([at, problems]) => {
      const { name, models } = limits[at] ?? {}
      if (models?.every((each) => keyOfModel(each) !== key)) return []
      return problems.map((each) => ({ ...each, message: `(limit ${name}) ${each.message}` }))
    }),
  ]
  const seen = new Set<string>()
  const repeated = new Set<string>()
  const modelRefs: BilledModel[] = []
  const outOfForce: NonNullable<Subscription['outOfForce']>[number][] = []
  for (const [index, entry] of entries.entries()) {
    const key = keyOfModel(entry)
    if (seen.has(key)) repeated.add(key)
    if (seen.has(key)) continue
    seen.add(key)
    const problems = problemsOf(index, key)
    const { namespace, name } = entry
    if (problems.length === 0) modelRefs.push(toBilledModel(entry, ofRates.get(index)?.[0]))
    else outOfForce.push({ namespace, name, problems })
  }
  return {
    modelRefs,
    ...(outOfForce.length > 0 && { outOfForce }),
    ...(repeated.size > 0 && { repeated: [...repeated] }),
  }
}
