/**
 * The resources of each model: which AccessPolicies and Subscriptions contribute, counted, and digests by which two
 * processes can compare what they have in force. The rules themselves stay in the snapshot.
 */

import { hash } from 'node:crypto'
import { getOrAdd, insertSorted } from '../../formats/lists.ts'
import { keyOfModel, type ModelRef } from '../../kinds/resources.ts'
import { changedEntries } from '../../models/rules/compile.ts'
import type { RefusedResource } from '../../models/rules/refused-resources.ts'
import type { CompiledPolicy, CompiledSubscription, Snapshot } from '../../models/rules/snapshot.ts'

/** The number of names that a generated policy shows. */
const namesShown = 100

/** All AccessPolicies, or all Subscriptions, of one model. */
interface Content {
  /** The first contributors in order; at most `namesShown`. */
  readonly names: readonly string[]
  /** How many contribute. */
  readonly count: number
  /** Digest of all contributions, independent of their order: 32 hexadecimal digits. */
  readonly digest: string
  /** One sentence for each resource that names the model and is not in force. */
  readonly refusals: readonly string[]
}

interface AccessContent extends Content {
  readonly users: number
  readonly groups: number
}

interface LimitContent extends Content {
  readonly limits: number
}

/** The policies of one model; undefined for a kind that does not name it. */
export interface ModelPolicies {
  /** `<namespace>/<name>`. */
  readonly model: string
  /** Whether the model has a backend. */
  readonly isServed: boolean
  readonly access: AccessContent | undefined
  readonly limits: LimitContent | undefined
  /** Digest of how the model is served. */
  readonly server: string
}

/** The policies of all models of a snapshot. */
export interface AllModelPolicies {
  /** By model; the same object as before if nothing of it has changed. */
  readonly byModel: ReadonlyMap<string, ModelPolicies>
  readonly compared: Compared
}

/** What they were made from, to be compared with what the next ones are made from. */
interface Compared extends Pick<Snapshot, 'models' | 'policies' | 'subscriptions'> {
  readonly refused: readonly RefusedResource[]
}

export const noPolicies: AllModelPolicies = {
  byModel: new Map(),
  compared: { models: new Map(), policies: new Map(), subscriptions: new Map(), refused: [] },
}

/** The policies of a snapshot, in steps of some microseconds each. Unchanged models are taken over. */
export function* policiesInSteps(
  { models, policies, subscriptions }: Snapshot,
  refused: readonly RefusedResource[],
  previous: AllModelPolicies = noPolicies,
): Generator<void, AllModelPolicies> {
  const compared = { models, policies, subscriptions, refused }
  const stale = yield* findStale(compared, previous)
  if (stale.size === 0) return { byModel: previous.byModel, compared }

  const access = new Map<string, Gathering>()
  const limits = new Map<string, Gathering>()
  for (const policy of policies.values()) {
    for (const key of new Set(policy.modelKeys)) {
      if (stale.has(key)) add(access, key, policy.resource.metadata.name, digestOf(policy))
    }
    yield
  }
  for (const subscription of subscriptions.values()) {
    for (const [key, own] of subscription.limits) {
      if (!stale.has(key)) continue
      const text = `${digestOf(subscription)} ${own.map(limitText).join()}${chargesOf(subscription, key)}`
      add(limits, key, subscription.name, hash('sha256', text, 'hex'), own.length)
    }
    for (const key of subscription.resource.outOfForce?.map(keyOfModel) ?? []) {
      const refusal = `Subscription ${subscription.name} has an unknown field for it and is not in force here`
      if (stale.has(key)) gatheringOf(limits, key).refusals.push(refusal)
    }
    yield
  }
  for (const { kind, name, modelKeys, message } of refused) {
    const gathered = kind === 'AccessPolicy' ? access : limits
    for (const key of modelKeys) {
      if (stale.has(key))
        gatheringOf(gathered, key).refusals.push(`${kind} ${name} is not in force: ${message}`)
    }
    yield
  }

  const byModel = new Map<string, ModelPolicies>()
  for (const [key, model] of models) {
    const before = stale.has(key) ? undefined : previous.byModel.get(key)
    if (before !== undefined) byModel.set(key, before)
    if (!stale.has(key)) continue
    const [own, paid] = [access.get(key), limits.get(key)]
    const { users, groups, cluster } = model
    byModel.set(key, {
      model: key,
      isServed: cluster !== undefined,
      access: own && { ...toContent(own), users: users.size, groups: groups.size },
      limits: paid && { ...toContent(paid), limits: paid.limits },
      server: serverDigest(model.resource),
    })
    yield
  }
  return { byModel, compared }
}

function limitText({ kind, limit, limitName, windowMs, scope, keyPrefix }: CountedLimit): string {
  if (limitName !== undefined) return `${keyPrefix}${scope} ${limit}`
  return `${kind === 'tokens' ? '' : `${kind} `}${limit}/${windowMs}`
}

/** What else its limits by name, weights and prices depend on, besides ADMISSION_MODE, which the controller may lack. */
function chargesOf({ terms }: CompiledSubscription, model: string): string {
  const { tariff, observed } = terms.get(model) ?? {}
  if (!tariff?.isByTariff && !tariff?.isPriced) return ''
  const text = tariff.text.replace('"charge":"admission",', '')
  return ` ${text} ${observed?.map(limitText).join() ?? ''}`
}

type CountedLimit = NonNullable<ReturnType<CompiledSubscription['limits']['get']>>[number]

/** The models that have changed. */
function* findStale(
  compared: Compared,
  previous: AllModelPolicies,
): Generator<void, ReadonlySet<string>> {
  const before = previous.compared
  const stale = new Set<string>()
  if (compared.models !== before.models) {
    for (const [key, { resource }] of compared.models) {
      if (before.models.get(key)?.resource !== resource) stale.add(key)
      yield
    }
    for (const key of before.models.keys()) if (!compared.models.has(key)) stale.add(key)
  }
  for (const kind of ['policies', 'subscriptions'] as const) {
    if (compared[kind] === before[kind]) continue
    for (const { modelKeys } of changedEntries<CompiledPolicy | CompiledSubscription>(
      compared[kind],
      before[kind],
    )) {
      for (const key of modelKeys) stale.add(key)
      yield
    }
  }
  const known = new Set(before.refused)
  const still = new Set(compared.refused)
  for (const each of [...compared.refused, ...before.refused]) {
    if (!known.has(each) || !still.has(each)) for (const key of each.modelKeys) stale.add(key)
  }
  return stale
}

/** What has been collected for one model so far. */
interface Gathering {
  readonly names: string[]
  readonly sum: Uint32Array
  readonly refusals: string[]
  count: number
  limits: number
}

/** Begins to collect if there is nothing yet. */
function gatheringOf(all: Map<string, Gathering>, key: string): Gathering {
  const none = (): Gathering => ({
    names: [],
    sum: new Uint32Array(4),
    refusals: [],
    count: 0,
    limits: 0,
  })
  return getOrAdd(all, key, none)
}

function add(
  all: Map<string, Gathering>,
  key: string,
  name: string,
  digest: string,
  limits = 0,
): void {
  const gathering = gatheringOf(all, key)
  gathering.count += 1
  gathering.limits += limits
  // A sum does not depend on the order, so thousands need no sorting.
  for (let i = 0; i < 4; i += 1) {
    const part = Number.parseInt(digest.slice(8 * i, 8 * i + 8), 16)
    gathering.sum[i] = (gathering.sum[i] as number) + part
  }
  insertSorted(gathering.names, name, namesShown)
}

function toContent({ names, count, sum, refusals }: Gathering): Content {
  const digest = [...sum].map((part) => part.toString(16).padStart(8, '0')).join('')
  return { names, count, digest, refusals: refusals.sort() }
}

const digests = new WeakMap<object, string>()

/** Digest of what a resource says about all its models. */
function digestOf({ resource }: CompiledPolicy | CompiledSubscription): string {
  return remembered(resource, () => {
    const { name, deleting } = resource.metadata
    if (resource.kind === 'AccessPolicy') return [name, resource.subjects, resource.metering]
    const { owner, priority, attribution, admission, notifyAt } = resource
    return [name, deleting, owner, priority, attribution, admission, notifyAt]
  })
}

function serverDigest(ref: ModelRef): string {
  return remembered(ref, () => {
    const { backend, backendUrl, backendHost, modelIds, server, output, state, modelFields } = ref
    return [backend, backendUrl, backendHost, modelIds, server, output, state, modelFields]
  })
}

function remembered(resource: object, content: () => unknown): string {
  const digest = () => hash('sha256', JSON.stringify(content()), 'hex').slice(0, 32)
  return getOrAdd(digests, resource, digest)
}
