/**
 * All resources compiled into one immutable value, indexed for the request path: the models, who
 * may use them, and what each subscription grants. A request keeps the Snapshot that it began with;
 * a change publishes a new one.
 */

import { hash } from 'node:crypto'
import type { FieldPath } from '../formats/fields.ts'
import { addTo } from '../formats/lists.ts'
import type {
  AccessPolicy,
  ModelRef,
  Resource,
  Subscription,
  Tenant,
  Tier,
  TierMapping,
} from '../kinds/resources.ts'
import { keyOf } from '../kinds/resources.ts'
import { type CountedLimit, toCountedLimits } from './counter.ts'
import { indexOwners, noOwners, type Owners } from './owners.ts'

export type Phase = 'Pending' | 'Ready' | 'Active' | 'Degraded' | 'Failed'

export interface Model {
  /** `<namespace>/<name>`. */
  readonly key: string
  readonly resource: ModelRef
  readonly phase: Phase
  /** Name of the model's Envoy cluster; undefined if it has no backend. */
  readonly cluster: string | undefined
  /** Path of the backend's URL, without a trailing slash. */
  readonly basePath: string
  /**
   * The names that a body may use for it, separated by tabs; undefined if its server's ids are
   * unknown.
   */
  readonly bodyNames: string | undefined
  /** Union of the subjects of all policies that name the model. */
  readonly users: ReadonlySet<string>
  readonly groups: ReadonlySet<string>
}

/** The state of a resource's references to models. */
export interface References {
  readonly phase: Phase
  /** `<namespace>/<name>` of each, ordered. */
  readonly modelKeys: readonly string[]
  /** Those that do not exist. */
  readonly missing: ReadonlySet<string>
  readonly problems: readonly ResourceProblem[]
}

export interface CompiledSubscription extends References {
  readonly name: string
  readonly resource: Subscription
  readonly users: ReadonlySet<string>
  readonly groups: ReadonlySet<string>
  /** Limits by model key; a missing model is not covered. */
  readonly limits: ReadonlyMap<string, readonly CountedLimit[]>
  /** Negative priorities count as 0 (contract, 3.12). */
  readonly priority: number
  /** Largest single limit of all models, windows ignored (contract, 3.12). */
  readonly largestLimit: number
}

export interface CompiledPolicy extends References {
  readonly resource: AccessPolicy
}

/** A part of a resource that cannot be put in force, or needs attention. */
export interface ResourceProblem {
  /** `<kind>/<namespace>/<name>`. */
  readonly resource: string
  readonly path: FieldPath
  readonly message: string
}

/** A name that model servers list, and the namespace that it belongs to. */
export interface ServedName {
  readonly namespace: string
  /** The namespace's models whose server lists it, earlier ones first. */
  readonly owned: readonly Model[]
  /**
   * The namespace's models that have lost it, or are gone themselves: who may use one of these waits
   * for it to return, and is not served by another namespace.
   */
  readonly held: readonly Opened[]
  /** Models of other namespaces whose server lists it, earlier ones first. */
  readonly others: readonly Model[]
}

/** A model, which may be gone, and who may use it. */
export type Opened = Pick<Model, 'key' | 'users' | 'groups'>

/** The names that model servers list. */
export interface ServedNames {
  /** Whether the owners have been read. */
  readonly isKnown: boolean
  /** undefined: nobody owns the name. */
  get(name: string): ServedName | undefined
  /** The namespace that owns the name. */
  ownerOf(name: string): string | undefined
  /** The names that the model's server lists; undefined if it has not answered yet. */
  listOf(model: Model): readonly string[] | undefined
}

export interface Snapshot {
  /** By `<namespace>/<name>`. */
  readonly models: ReadonlyMap<string, Model>
  /**
   * By the names a body may use: the ModelRef's own and its `modelIds`. Earlier models come first.
   */
  readonly modelsByName: ReadonlyMap<string, readonly Model[]>
  /** The names that servers list (served-names.ts). */
  readonly servedNames: ServedNames
  /** By bare name; all are in one namespace. */
  readonly subscriptions: ReadonlyMap<string, CompiledSubscription>
  /** The same by owner. */
  readonly owners: Owners
  /** By bare name; all are in one namespace. */
  readonly policies: ReadonlyMap<string, CompiledPolicy>
  readonly tenant: Tenant | undefined
  /** undefined: there is no valid mapping, which differs from a mapping without tiers. */
  readonly tiers: readonly Tier[] | undefined
  readonly problems: readonly ResourceProblem[]
}

/** `<kind>/<namespace>/<name>`, the identity of a resource. */
export function resourceKey({ kind, metadata }: Resource): string {
  return `${kind}/${metadata.namespace}/${metadata.name}`
}

/**
 * Name of a model's Envoy cluster. If its server has a host name, a change of the connection gets
 * another one: in a cluster that is replaced Envoy would have no address until it is resolved again.
 */
export function clusterName(ref: ModelRef): string {
  const { backendUrl = '', backendHost, server } = ref
  const name = `model/${keyOf(ref)}`
  if (!namesHost(backendUrl)) return name
  const { connectMs, credential, caFile } = server
  const connection = JSON.stringify([backendUrl, backendHost, connectMs, credential, caFile])
  return `${name}/${hash('sha256', connection, 'hex').slice(0, 8)}`
}

/** Whether a URL's host is a name, which may have several addresses. */
export function namesHost(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? ''
  return !/^[\d.]+$|^\[/.test(host)
}

/** Compiles resources with unique keys. Never throws: problems are values. */
export function compile(resources: readonly Resource[], previous?: Snapshot): Snapshot {
  const steps = compileInSteps(resources, previous)
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

/**
 * The same in steps of some microseconds each, so that the caller can do other work between them.
 * The compiled form of a resource in `previous` is taken over, as the same object, if the resource
 * is the same object and nothing that it names has been added or removed.
 */
export function* compileInSteps(
  resources: readonly Resource[],
  previous: Snapshot = nothing,
): Generator<void, Snapshot> {
  const modelRefs = new Map<string, ModelRef>()
  const written = { policies: [] as AccessPolicy[], subscriptions: [] as Subscription[] }
  const mappings: TierMapping[] = []
  let tenant: Tenant | undefined
  for (const resource of resources) {
    if (resource.kind === 'Subscription') written.subscriptions.push(resource)
    else if (resource.metadata.deleting) continue
    else if (resource.kind === 'ModelRef') modelRefs.set(keyOf(resource), resource)
    else if (resource.kind === 'AccessPolicy') written.policies.push(resource)
    else if (resource.kind === 'ConfigMap') mappings.push(resource)
    // The other kinds have been merged into ModelRefs by now (external-models.ts, join-routes.ts).
    else if (resource.kind === 'Tenant') tenant ??= resource
    yield
  }
  const moved = difference(previous.models, modelRefs)

  const policies = yield* compileEach(written.policies, previous.policies, moved, (resource) => ({
    resource,
    ...referring(resource, modelRefs),
  }))
  const models = yield* compileModels(modelRefs, policies, previous)
  const subscriptions = yield* compileEach(
    written.subscriptions,
    previous.subscriptions,
    moved,
    (resource) => compileSubscription(resource, referring(resource, modelRefs)),
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
  for (const other of mappings.slice(1)) {
    const path = ['metadata', 'namespace']
    const message = 'is a second one; the first that was read counts'
    problems.push({ resource: resourceKey(other), path, message })
  }
  return {
    models,
    modelsByName: models === previous.models ? previous.modelsByName : indexByName(models.values()),
    servedNames: noNames,
    subscriptions,
    owners,
    policies,
    tenant,
    tiers: mappings[0]?.tiers,
    problems,
  }
}

const noNames: ServedNames = {
  isKnown: false,
  get: () => undefined,
  ownerOf: () => undefined,
  listOf: () => undefined,
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

/**
 * Compiles resources that refer to models, by name; returns the `previous` map itself if nothing
 * has changed. `moved`: the models that were added or removed.
 */
function* compileEach<
  Written extends AccessPolicy | Subscription,
  Compiled extends References & { readonly resource: Written },
>(
  resources: readonly Written[],
  previous: ReadonlyMap<string, Compiled>,
  moved: ReadonlySet<string>,
  compileOne: (resource: Written) => Compiled,
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

/**
 * Compiles models with the policies that name them; returns the map of `previous` itself if nothing
 * has changed.
 */
function* compileModels(
  modelRefs: ReadonlyMap<string, ModelRef>,
  policies: ReadonlyMap<string, CompiledPolicy>,
  previous: Snapshot,
): Generator<void, ReadonlyMap<string, Model>> {
  const stale = new Set<string>()
  for (const [key, ref] of modelRefs) if (previous.models.get(key)?.resource !== ref) stale.add(key)
  if (policies !== previous.policies) {
    for (const { modelKeys } of changed(policies, previous.policies)) {
      for (const key of modelKeys) stale.add(key)
      yield
    }
  }
  if (stale.size === 0 && modelRefs.size === previous.models.size) return previous.models

  const applying = new Map<string, AccessPolicy[]>()
  for (const { modelKeys, resource } of policies.values()) {
    for (const key of modelKeys) {
      if (stale.has(key)) addTo(applying, key, resource)
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
export function* changed<Value>(
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
    bodyNames: resource.modelIds.length === 0 ? undefined : namesOf(resource).join('\t'),
    users: new Set(applying.flatMap(({ subjects }) => subjects.users)),
    groups: new Set(applying.flatMap(({ subjects }) => subjects.groups)),
  }
}

function compileSubscription(resource: Subscription, references: References): CompiledSubscription {
  const { name } = resource.metadata
  const limits = new Map<string, readonly CountedLimit[]>()
  let largestLimit = 0
  for (const [index, { tokenRateLimits }] of resource.modelRefs.entries()) {
    const key = references.modelKeys[index] as string
    if (!references.missing.has(key)) limits.set(key, toCountedLimits(name, key, tokenRateLimits))
    for (const { limit } of tokenRateLimits) largestLimit = Math.max(largestLimit, limit)
  }
  return {
    name,
    resource,
    users: new Set(resource.owner.users),
    groups: new Set(resource.owner.groups),
    limits,
    priority: Math.max(0, resource.priority),
    largestLimit,
    ...references,
  }
}

/**
 * The models that a resource names. Missing ones are recorded as problems. Active if all exist,
 * Degraded if some do, otherwise Failed (contract, 7.2).
 */
function referring(
  resource: AccessPolicy | Subscription,
  known: ReadonlyMap<string, unknown>,
): References {
  const modelKeys = resource.modelRefs.map(({ namespace, name }) => `${namespace}/${name}`)
  const missing = new Set(modelKeys.filter((key) => !known.has(key)))
  const problems = modelKeys.flatMap((key, index) =>
    missing.has(key)
      ? {
          resource: resourceKey(resource),
          path: ['spec', 'modelRefs', index],
          message: `names the model ${key}, which does not exist`,
        }
      : [],
  )
  const stands = modelKeys.some((key) => !missing.has(key))
  const phase = missing.size === 0 ? 'Active' : stands ? 'Degraded' : 'Failed'
  return { modelKeys, missing, problems, phase }
}

/** The ModelRef's own name and its ids. */
export function namesOf({ metadata, modelIds }: ModelRef): readonly string[] {
  return [...new Set([metadata.name, ...modelIds])]
}

function indexByName(models: Iterable<Model>): ReadonlyMap<string, readonly Model[]> {
  const index = new Map<string, Model[]>()
  for (const model of models) {
    for (const name of namesOf(model.resource)) addTo(index, name, model)
  }
  for (const sharing of index.values()) if (sharing.length > 1) sharing.sort(byAge)
  return index
}

/**
 * Earlier models first: by `creationTimestamp`, then by key in byte order. Those without a time, as
 * in files, come last.
 */
export function byAge(a: Model, b: Model): number {
  const since = a.resource.metadata.createdAt ?? Infinity
  const other = b.resource.metadata.createdAt ?? Infinity
  if (since !== other) return since < other ? -1 : 1
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0
}
