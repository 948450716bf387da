/** Compiles all resources into a Snapshot: the models, who may use them, and what each grants. */

import { appendTo } from '../../formats/lists.ts'
import {
  type AccessPolicy,
  type ExternalOidc,
  keyOfModel,
  type ModelRef,
  qualifiedName,
  type Resource,
  type Subscription,
  subscriptionNamespace,
  type Tenant,
  type TierMapping,
} from '../../kinds/resources.ts'
import { compileSubscription } from './compile-subscription.ts'
import { missingModelMessage } from './missing-model.ts'
import {
  type CompiledPolicy,
  type CompiledSubscription,
  clusterName,
  compareByAge,
  type Model,
  modelNames,
  type Owners,
  phaseOf,
  type References,
  type ResourceProblem,
  resourceKey,
  type ServedNames,
  type Snapshot,
} from './snapshot.ts'

/**
 * Compiles resources with unique keys, in steps of some microseconds each, so that the caller can do other work
 * between them. Never throws: problems are values. Reuses the compiled form of a resource in `previous`, as the same
 * object, if the resource is the same object and nothing that it names has been added or removed. `admissionMode` is
 * by default that of `previous`.
 */
export function* compileInSteps(
  resources: readonly Resource[],
  previous: Snapshot = nothing,
  admissionMode = previous.admissionMode,
): Generator<void, Snapshot> {
  const modelRefs = new Map<string, ModelRef>()
  const found = { policies: [] as AccessPolicy[], subscriptions: [] as Subscription[] }
  const mappings: TierMapping[] = []
  let tenant: Tenant | undefined
  let externalOidc: ExternalOidc | undefined
  for (const resource of resources) {
    if (resource.kind === 'Subscription') found.subscriptions.push(resource)
    else if (resource.metadata.deleting) continue
    else if (resource.kind === 'ModelRef') modelRefs.set(qualifiedName(resource), resource)
    else if (resource.kind === 'AccessPolicy') found.policies.push(resource)
    else if (resource.kind === 'ConfigMap') mappings.push(resource)
    // The other kinds have been merged into ModelRefs by now (external-models.ts, join-routes.ts).
    else if (resource.kind === 'Tenant') tenant ??= resource
    else if (resource.kind === 'AITenant') externalOidc ??= resource.externalOidc
    yield
  }
  const moved = difference(previous.models, modelRefs)

  const policies = yield* compileEach(found.policies, previous.policies, moved, (resource) => ({
    resource,
    ...referring(resource, modelRefs),
  }))
  const models = yield* compileModels(modelRefs, policies, previous)
  const isTenantSame =
    previous.tenant?.limits === tenant?.limits &&
    previous.tenant?.calendar === tenant?.calendar &&
    previous.tenant?.unreadable === tenant?.unreadable
  const subscriptions = yield* compileEach(
    found.subscriptions,
    isTenantSame ? previous.subscriptions : new Map(),
    new Set([...moved, ...withOtherLimits(previous.models, modelRefs)]),
    (resource) =>
      compileSubscription(resource, referring(resource, modelRefs), {
        modelRefs,
        tenant,
        admissionMode,
      }),
  )
  const isSame = subscriptions === previous.subscriptions
  const owners = isSame ? previous.owners : yield* indexOwners(subscriptions.values())
  const problems: ResourceProblem[] = []
  for (const { problems: found } of subscriptions.values()) problems.push(...found)
  for (const { problems: found } of policies.values()) problems.push(...found)
  for (const { resource } of models.values()) {
    const { addressProblem: message } = resource
    if (message === undefined) continue
    problems.push({ resource: resourceKey(resource), path: ['spec', 'backendUrl'], message })
  }
  for (const [index, { models: named = [] }] of tenant?.limits.entries() ?? []) {
    for (const [at, model] of named.entries()) {
      if (tenant === undefined || modelRefs.has(keyOfModel(model))) continue
      const path = ['spec', 'limits', index, 'models', at]
      const message = missingModelMessage(keyOfModel(model))
      problems.push({ resource: resourceKey(tenant), path, message, missing: keyOfModel(model) })
    }
  }
  const modelsByName =
    models === previous.models ? previous.modelsByName : yield* indexByName(models.values())
  const [mapping, ...others] = mappings.sort(byTrust)
  for (const other of others) {
    const path = ['metadata', 'namespace']
    const message = `is a duplicate ConfigMap and ignored; ${mapping && qualifiedName(mapping)} comes first`
    problems.push({ resource: resourceKey(other), path, message })
  }
  return {
    models,
    modelsByName,
    servedNames: noNames,
    subscriptions,
    owners,
    policies,
    tenant: withOidc(tenant, externalOidc),
    tiers: mapping?.tiers,
    problems,
    saidOfMissing: previous.saidOfMissing,
    admissionMode,
  }
}

/** Authors of any namespace may write a mapping: the one in the administrators' namespace comes first, then the oldest. */
function byTrust({ metadata: a }: TierMapping, { metadata: b }: TierMapping): number {
  const [isOurs, isTheirs] = [a, b].map(({ namespace }) => namespace === subscriptionNamespace)
  if (isOurs !== isTheirs) return isOurs ? -1 : 1
  return (a.createdAt ?? 0) - (b.createdAt ?? 0)
}

/** The Tenant with this provider, unless it names one itself. */
function withOidc(
  tenant: Tenant | undefined,
  externalOidc: ExternalOidc | undefined,
): Tenant | undefined {
  if (externalOidc === undefined || tenant?.externalOidc !== undefined) return tenant
  return { ...(tenant ?? defaultTenant), externalOidc }
}

/** The Tenant of an installation without one. */
export const defaultTenant: Tenant = {
  kind: 'Tenant',
  metadata: {
    name: 'default-tenant',
    namespace: subscriptionNamespace,
    annotations: {},
    createdAt: undefined,
    deleting: false,
  },
  maxExpirationDays: undefined,
  externalOidc: undefined,
  telemetry: undefined,
  limits: [],
  calendar: undefined,
}

export const noOwners: Owners = { users: new Map(), groups: new Map() }

const noNames: ServedNames = {
  listing: () => [],
  listingAnywhere: () => [],
  listOf: () => undefined,
  isLlamaCpp: () => false,
}

const nothing: Snapshot = {
  models: new Map(),
  modelsByName: new Map(),
  servedNames: noNames,
  subscriptions: new Map(),
  owners: noOwners,
  policies: new Map(),
  tenant: undefined,
  tiers: undefined,
  problems: [],
  saidOfMissing: new Map(),
  admissionMode: 'count',
}

/** The keys that are in only one of the two. */
function difference(
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
): ReadonlySet<string> {
  const moved = new Set<string>()
  for (const key of before.keys()) if (!after.has(key)) moved.add(key)
  for (const key of after.keys()) if (!before.has(key)) moved.add(key)
  return moved
}

/** The models whose own limits have changed. */
function* withOtherLimits(
  before: Snapshot['models'],
  after: ReadonlyMap<string, ModelRef>,
): Generator<string> {
  for (const [key, { limits }] of after) {
    const own = before.get(key)?.resource.limits ?? []
    if (own !== limits && own.length + limits.length > 0) yield key
  }
}

/**
 * Compiles resources that refer to models, by name; returns the `previous` map itself if nothing
 * has changed. `moved`: the models that were added or removed.
 */
function* compileEach<
  Raw extends AccessPolicy | Subscription,
  Compiled extends References & { readonly resource: Raw },
>(
  resources: readonly Raw[],
  previous: ReadonlyMap<string, Compiled>,
  moved: ReadonlySet<string>,
  compileOne: (resource: Raw) => Compiled,
): Generator<void, ReadonlyMap<string, Compiled>> {
  const all = new Map<string, Compiled>()
  let same = true
  for (const resource of resources) {
    const { name } = resource.metadata
    const before = previous.get(name)
    if (before?.resource === resource && !before.modelKeys.some((key) => moved.has(key))) {
      all.set(name, before)
    } else {
      all.set(name, compileOne(resource))
      same = false
    }
    yield
  }
  return same && all.size === previous.size ? previous : all
}

/** Compiles models with the policies that name them; returns the map of `previous` itself if nothing has changed. */
function* compileModels(
  modelRefs: ReadonlyMap<string, ModelRef>,
  policies: ReadonlyMap<string, CompiledPolicy>,
  previous: Snapshot,
): Generator<void, ReadonlyMap<string, Model>> {
  const stale = new Set<string>()
  for (const [key, ref] of modelRefs) if (previous.models.get(key)?.resource !== ref) stale.add(key)
  if (policies !== previous.policies) {
    for (const { modelKeys } of changedEntries(policies, previous.policies)) {
      for (const key of modelKeys) stale.add(key)
      yield
    }
  }
  if (stale.size === 0 && modelRefs.size === previous.models.size) return previous.models

  const applying = new Map<string, AccessPolicy[]>()
  for (const { modelKeys, resource } of policies.values()) {
    for (const key of modelKeys) {
      if (stale.has(key)) appendTo(applying, key, resource)
    }
    yield
  }
  const models = new Map<string, Model>()
  for (const [key, ref] of modelRefs) {
    const before = stale.has(key) ? undefined : previous.models.get(key)
    models.set(key, before ?? compileModel(key, ref, applying.get(key) ?? []))
    yield
  }
  return models
}

/** The entries that are in only one of the two, or differ. */
export function* changedEntries<Value>(
  after: ReadonlyMap<string, Value>,
  before: ReadonlyMap<string, Value>,
): Generator<Value> {
  for (const [name, value] of after) if (before.get(name) !== value) yield value
  for (const [name, value] of before) if (after.get(name) !== value) yield value
}

/** A model with the policies that name it. */
function compileModel(key: string, resource: ModelRef, applying: readonly AccessPolicy[]): Model {
  const served = resource.backendUrl !== undefined
  return {
    key,
    resource,
    phase: served ? 'Ready' : 'Pending',
    cluster: served ? clusterName(resource) : undefined,
    basePath: served ? new URL(resource.backendUrl).pathname.replace(/\/+$/, '') : '',
    bodyNames: resource.modelIds.length === 0 ? undefined : modelNames(resource).join('\t'),
    users: new Set(applying.flatMap(({ subjects }) => subjects.users)),
    groups: new Set(applying.flatMap(({ subjects }) => subjects.groups)),
    policies: applying.map(({ metadata }) => metadata.name).sort(),
  }
}

/**
 * The models that a resource names; those that do not exist, or whose entry is not in force, are missing, and recorded
 * as problems. Active if there are none, Degraded if others stand, otherwise Failed (contract, 7.2).
 */
function referring(
  resource: AccessPolicy | Subscription,
  known: ReadonlyMap<string, unknown>,
): References {
  const modelKeys = resource.modelRefs.map(keyOfModel)
  const missing = new Set(modelKeys.filter((key) => !known.has(key)))
  const problems: ResourceProblem[] = modelKeys.flatMap((key, index) =>
    missing.has(key)
      ? {
          resource: resourceKey(resource),
          path: ['spec', 'modelRefs', index],
          message: missingModelMessage(key),
          missing: key,
        }
      : [],
  )
  for (const entry of (resource.kind === 'Subscription' && resource.outOfForce) || []) {
    const key = keyOfModel(entry)
    modelKeys.push(key)
    missing.add(key)
    for (const { path, message } of entry.problems) {
      const consequence = `so the entry of ${key} is not in force`
      problems.push({
        resource: resourceKey(resource),
        path,
        message: `${message}, ${consequence}`,
        entry: key,
      })
    }
  }
  return { modelKeys, missing, problems, phase: phaseOf(modelKeys, missing) }
}

/** Names of models that are sorted in one step. */
const namesInStep = 1_000

function* indexByName(
  models: Iterable<Model>,
): Generator<void, ReadonlyMap<string, readonly Model[]>> {
  const index = new Map<string, Model[]>()
  for (const model of models) {
    for (const name of modelNames(model.resource)) appendTo(index, name, model)
    yield
  }
  let sorted = 0
  for (const sharing of index.values()) {
    if (sharing.length > 1) sharing.sort(compareByAge)
    sorted += sharing.length
    if (sorted < namesInStep) continue
    sorted = 0
    yield
  }
  return index
}

/** Builds the index, one subscription per step. */
export function* indexOwners(
  subscriptions: Iterable<CompiledSubscription>,
): Generator<void, Owners> {
  const users = new Map<string, CompiledSubscription[]>()
  const groups = new Map<string, CompiledSubscription[]>()
  for (const subscription of subscriptions) {
    for (const user of subscription.users) appendTo(users, user, subscription)
    for (const group of subscription.groups) appendTo(groups, group, subscription)
    yield
  }
  return { users, groups }
}
