/**
 * All resources compiled into one immutable value, indexed for the request path: which models
 * there are, who may use them, what each subscription grants. A request keeps the Snapshot it
 * began with; a change publishes a new one whole.
 */

import { type CountedLimit, toCountedLimits } from './counter.ts'
import type { FieldPath } from './fields.ts'
import type { AccessPolicy, ModelRef, Resource, Subscription, Tenant } from './resources.ts'
import type { Tier } from './tiers.ts'

export type Phase = 'Pending' | 'Ready' | 'Active' | 'Degraded' | 'Failed'

export interface Model {
  /** `<namespace>/<name>`. */
  readonly key: string
  readonly resource: ModelRef
  readonly phase: Phase
  /** Name of the model's Envoy cluster; undefined while nothing serves it. */
  readonly cluster: string | undefined
  /** Path of the backend's URL, without a trailing slash. */
  readonly basePath: string
  /** The names a body may give it, tabs between; undefined while its server's ids are not known. */
  readonly bodyNames: string | undefined
  /** Union of the subjects of every policy that names the model. */
  readonly users: ReadonlySet<string>
  readonly groups: ReadonlySet<string>
}

export interface CompiledSubscription {
  readonly name: string
  readonly resource: Subscription
  readonly phase: Phase
  readonly users: ReadonlySet<string>
  readonly groups: ReadonlySet<string>
  /** Limits by model key; a model that is not here is not covered. */
  readonly limits: ReadonlyMap<string, readonly CountedLimit[]>
  /** Negative priorities count as 0 (contract, 3.12). */
  readonly priority: number
  /** Largest single limit of all models, windows ignored (contract, 3.12). */
  readonly largestLimit: number
}

export interface CompiledPolicy {
  readonly resource: AccessPolicy
  readonly phase: Phase
}

/** Something a resource says that can not be put in force, or that deserves a look. */
export interface ResourceProblem {
  /** `<kind>/<namespace>/<name>`. */
  readonly resource: string
  readonly path: FieldPath
  readonly message: string
}

type Note = (resource: Resource, path: FieldPath, message: string) => void

export interface Snapshot {
  /** By `<namespace>/<name>`. */
  readonly models: ReadonlyMap<string, Model>
  /** By the names a body may use: the ModelRef's own and its `modelIds`. */
  readonly modelsByName: ReadonlyMap<string, readonly Model[]>
  /** By bare name; all live in one namespace. */
  readonly subscriptions: ReadonlyMap<string, CompiledSubscription>
  readonly policies: readonly CompiledPolicy[]
  readonly tenant: Tenant | undefined
  /** undefined: no valid mapping is there, which is not the same as one without tiers. */
  readonly tiers: readonly Tier[] | undefined
  readonly problems: readonly ResourceProblem[]
}

/** `<kind>/<namespace>/<name>`, what makes a resource itself. */
export function resourceKey({ kind, metadata }: Resource): string {
  return `${kind}/${metadata.namespace}/${metadata.name}`
}

/** Name of the Envoy cluster that leads to a model. */
export function clusterName(modelKey: string): string {
  return `model/${modelKey}`
}

/** Compiles resources, no two of which have the same key. Never throws: problems are values. */
export function compile(resources: readonly Resource[]): Snapshot {
  const problems: ResourceProblem[] = []
  const live = resources.filter(({ metadata }) => !metadata.deleting)
  const modelRefs = live.filter((resource) => resource.kind === 'ModelRef')
  const policies = live.filter((resource) => resource.kind === 'AccessPolicy')
  const known = new Set(modelRefs.map(keyOf))
  const note: Note = (resource, path, message) =>
    void problems.push({ resource: resourceKey(resource), path, message })

  const applying = policiesByModel(policies)
  const models = new Map(
    modelRefs.map((ref) => [keyOf(ref), compileModel(ref, applying.get(keyOf(ref)) ?? [])]),
  )
  return {
    models,
    modelsByName: indexByName(models.values()),
    subscriptions: new Map(
      resources
        .filter((resource) => resource.kind === 'Subscription')
        .map((resource) => [
          resource.metadata.name,
          compileSubscription(resource, missing(resource, known, note)),
        ]),
    ),
    policies: policies.map((resource) => ({
      resource,
      phase: phaseOf(resource, missing(resource, known, note)),
    })),
    tenant: live.find((resource) => resource.kind === 'Tenant'),
    tiers: readMapping(live, note),
    problems,
  }
}

/** The tiers of the first mapping; others, in other namespaces, are noted. */
function readMapping(resources: readonly Resource[], note: Note): readonly Tier[] | undefined {
  const [first, ...others] = resources.filter((resource) => resource.kind === 'ConfigMap')
  for (const other of others) {
    note(other, ['metadata', 'namespace'], 'is a second one; the first that was read counts')
  }
  return first?.tiers
}

function keyOf({ metadata }: ModelRef): string {
  return `${metadata.namespace}/${metadata.name}`
}

function policiesByModel(
  policies: readonly AccessPolicy[],
): ReadonlyMap<string, readonly AccessPolicy[]> {
  const index = new Map<string, AccessPolicy[]>()
  for (const policy of policies) {
    for (const { namespace, name } of policy.modelRefs) {
      const key = `${namespace}/${name}`
      const others = index.get(key)
      if (others === undefined) index.set(key, [policy])
      else others.push(policy)
    }
  }
  return index
}

/** A model with the policies that name it. */
function compileModel(resource: ModelRef, applying: readonly AccessPolicy[]): Model {
  const key = keyOf(resource)
  const served = resource.backendUrl !== undefined
  return {
    key,
    resource,
    phase: served ? 'Ready' : 'Pending',
    cluster: served ? clusterName(key) : undefined,
    basePath: served ? new URL(resource.backendUrl).pathname.replace(/\/+$/, '') : '',
    bodyNames: resource.modelIds.length === 0 ? undefined : namesOf(resource).join('\t'),
    users: new Set(applying.flatMap(({ subjects }) => subjects.users)),
    groups: new Set(applying.flatMap(({ subjects }) => subjects.groups)),
  }
}

function compileSubscription(
  resource: Subscription,
  missingModels: ReadonlySet<string>,
): CompiledSubscription {
  const { name } = resource.metadata
  const limits = new Map<string, readonly CountedLimit[]>()
  let largestLimit = 0
  for (const billed of resource.modelRefs) {
    const key = `${billed.namespace}/${billed.name}`
    if (!missingModels.has(key)) limits.set(key, toCountedLimits(name, key, billed.tokenRateLimits))
    for (const { limit } of billed.tokenRateLimits) largestLimit = Math.max(largestLimit, limit)
  }
  return {
    name,
    resource,
    phase: phaseOf(resource, missingModels),
    users: new Set(resource.owner.users),
    groups: new Set(resource.owner.groups),
    limits,
    priority: Math.max(0, resource.priority),
    largestLimit,
  }
}

/** Active when every reference stands, Degraded when some do, else Failed (contract, 7.2). */
function phaseOf(
  { modelRefs }: AccessPolicy | Subscription,
  missingModels: ReadonlySet<string>,
): Phase {
  if (missingModels.size === 0) return 'Active'
  const stands = modelRefs.some(({ namespace, name }) => !missingModels.has(`${namespace}/${name}`))
  return stands ? 'Degraded' : 'Failed'
}

/** The models a resource names that are not there, each noted as a problem where it is named. */
function missing(
  resource: AccessPolicy | Subscription,
  known: ReadonlySet<string>,
  note: Note,
): ReadonlySet<string> {
  const absent = new Set<string>()
  resource.modelRefs.forEach(({ namespace, name }, index) => {
    const key = `${namespace}/${name}`
    if (known.has(key)) return
    absent.add(key)
    note(resource, ['spec', 'modelRefs', index], `names the model ${key}, which does not exist`)
  })
  return absent
}

/** The ModelRef's own name and the ids that its server lists. */
function namesOf({ metadata, modelIds }: ModelRef): readonly string[] {
  return [...new Set([metadata.name, ...modelIds])]
}

function indexByName(models: Iterable<Model>): ReadonlyMap<string, readonly Model[]> {
  const index = new Map<string, Model[]>()
  for (const model of models) {
    for (const name of namesOf(model.resource)) {
      const sharing = index.get(name)
      if (sharing === undefined) index.set(name, [model])
      else sharing.push(model)
    }
  }
  return index
}
