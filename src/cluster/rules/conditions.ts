/** Snapshot → the status of each resource, as in `status` of its object (contract, 7.2). */

import { formatPath } from '../../formats/fields.ts'
import { getOrAdd, insertSorted, joinFirst } from '../../formats/lists.ts'
import type { ModelRef } from '../../kinds/resources.ts'
import { addMissingHints } from '../../models/rules/missing-model.ts'
import {
  type CompiledPolicy,
  type CompiledSubscription,
  type Model,
  type Phase,
  type References,
  resourceKey,
  type Snapshot,
} from '../../models/rules/snapshot.ts'
import type { ModelFailure } from '../../usage/rules/model-failure.ts'
import { bypassConditions } from './bypass.ts'
import type { Condition } from './condition.ts'
import { type PolicyConditions, type PolicyKind, policyNameOf } from './generated-policies.ts'
import { governanceCondition } from './governance.ts'
import { identityCondition } from './name-conflicts.ts'

export interface ResourceStatus {
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly phase: Phase
  readonly conditions: readonly Condition[]
}

/** How the last request to a model's server ended; null: with a response. */
export interface BackendState {
  readonly failure: ModelFailure | null
}

/** Information from outside the snapshot. */
export interface StatusView {
  /** If set, models report whether their server can be reached. */
  readonly backendOf?: ((model: string) => BackendState | undefined) | undefined
  /** If set, a resource is only as healthy as the policies that it contributes to. */
  readonly policyConditions?: PolicyConditions | undefined
  /** If set, models report whether Envoy has their cluster as written. */
  readonly programmedCondition?: ((model: string) => Condition | undefined) | undefined
}

/** Of an object that a finalizer keeps. */
export const deletedMessage = 'it is being deleted, so it is not in force'

/** The status of every resource of the snapshot, ordered by kind, namespace and name. */
export function resourceStatuses(
  snapshot: Snapshot,
  view: StatusView = {},
): readonly ResourceStatus[] {
  const { ofModel, ofPolicy, ofSubscription } = createStatusOf(snapshot, view)
  const statuses = [
    ...[...snapshot.policies.values()].map(ofPolicy),
    ...[...snapshot.models.values()].map(ofModel),
    ...[...snapshot.subscriptions.values()].map(ofSubscription),
  ]
  if (snapshot.tenant !== undefined) statuses.push(tenantStatus(snapshot.tenant))
  return statuses
    .map((status) => ({ status, key: `${status.kind}/${status.namespace}/${status.name}` }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ status }) => status)
}

/** The same for one resource, `<kind>/<namespace>/<name>`; undefined if it is not in force. */
export function createStatusOfKey(
  snapshot: Snapshot,
  view: StatusView = {},
): (key: string) => ResourceStatus | undefined {
  const { ofModel, ofPolicy, ofSubscription } = createStatusOf(snapshot, view)
  return (key) => {
    const [kind, namespace, name = ''] = key.split('/')
    if (kind === 'ModelRef') return maybe(snapshot.models.get(`${namespace}/${name}`), ofModel)
    if (kind === 'AccessPolicy') return maybe(snapshot.policies.get(name), ofPolicy)
    if (kind === 'Subscription') return maybe(snapshot.subscriptions.get(name), ofSubscription)
    const { tenant } = snapshot
    return kind === 'Tenant' && tenant?.metadata.name === name ? tenantStatus(tenant) : undefined
  }
}

function maybe<Value>(
  value: Value | undefined,
  toStatusOf: (value: Value) => ResourceStatus,
): ResourceStatus | undefined {
  return value === undefined ? undefined : toStatusOf(value)
}

function createStatusOf(snapshot: Snapshot, view: StatusView) {
  const { backendOf, policyConditions, programmedCondition } = view
  const peers = byPriority(snapshot)
  const withHints = <Of extends Compiled>(compiled: Of): Of => ({
    ...compiled,
    problems: addMissingHints(compiled.problems, snapshot.saidOfMissing),
  })
  return {
    ofModel: (model: Model) =>
      toStatus({ ...model, problems: [] }, [
        ...bypassConditions(model.resource),
        ...[programmedCondition?.(model.key)].filter((found) => found !== undefined),
        ...(backendOf && model.cluster !== undefined
          ? [reachableCondition(backendOf(model.key))]
          : []),
        identityCondition(model, snapshot),
        governanceCondition(model, snapshot),
        runtimeCondition(model),
      ]),
    ofPolicy: (policy: CompiledPolicy) =>
      toStatus(withHints(policy), [], weaknessOf(policy, 'ModelAuthPolicy', policyConditions)),
    ofSubscription: (subscription: CompiledSubscription) =>
      toStatus(
        subscription.resource.metadata.deleting ? deleted(subscription) : withHints(subscription),
        [priorityCondition(subscription, peers)],
        weaknessOf(subscription, 'TokenRateLimitPolicy', policyConditions),
      ),
  }
}

/** Requests under it are refused. */
function deleted<Of extends Compiled>(compiled: Of): Of {
  const resource = resourceKey(compiled.resource)
  const problem = { resource, path: [], message: deletedMessage }
  return { ...compiled, phase: 'Failed', problems: [problem] }
}

function tenantStatus(resource: NonNullable<Snapshot['tenant']>): ResourceStatus {
  const { unreadable = [] } = resource
  const problems = unreadable.map(({ path, message }) => ({
    resource: resourceKey(resource),
    path,
    message: `${message}, so nobody may use any model`,
  }))
  return toStatus({ resource, phase: problems.length > 0 ? 'Failed' : 'Active', problems })
}

type Compiled = Pick<References, 'phase' | 'problems'> & {
  readonly resource: Parameters<typeof resourceKey>[0]
}

/** A reason why a resource is not Active although everything that it names exists. */
interface Weakness {
  readonly status: 'False' | 'Unknown'
  readonly message: string
}

/** The number of policies that one message names. */
const policiesNamed = 5

/** A Subscription depends only on `Accepted`, an AccessPolicy also on `Enforced` (contract, 7.2). */
function weaknessOf(
  { modelKeys }: References,
  kind: PolicyKind,
  conditionsOf: PolicyConditions | undefined,
): Weakness | undefined {
  if (conditionsOf === undefined) return undefined
  const sentences: string[] = []
  let [weak, isFalse] = [0, false]
  for (const key of modelKeys) {
    const found = conditionsOf(key, kind).find(
      ({ type, status }) =>
        status !== 'True' && (type === 'Accepted' || kind === 'ModelAuthPolicy'),
    )
    if (found === undefined) continue
    weak += 1
    isFalse ||= found.status === 'False'
    const { type, status, message } = found
    const verb = status === 'Unknown' ? 'is not known to be' : 'is not'
    if (weak <= policiesNamed) {
      const name = policyNameOf(kind, key).join('/')
      sentences.push(`${name} ${verb} ${type.toLowerCase()}${message && `: ${message}`}`)
    }
  }
  if (weak === 0) return undefined
  if (weak > policiesNamed) sentences.push(`and ${weak - policiesNamed} more`)
  return { status: isFalse ? 'False' : 'Unknown', message: sentences.join('; ') }
}

function toStatus(
  compiled: Compiled,
  more: readonly Condition[] = [],
  weakness?: Weakness,
): ResourceStatus {
  const { kind, metadata } = compiled.resource
  const { namespace, name } = metadata
  const isWeak = weakness !== undefined && compiled.phase === 'Active'
  const phase = isWeak ? 'Degraded' : compiled.phase
  const conditions = [readyCondition({ ...compiled, phase }, weakness), ...more]
  return { kind, namespace, name, phase, conditions }
}

const readyReasons: Readonly<Record<Phase, string>> = {
  Ready: 'Reconciled',
  Active: 'Reconciled',
  Pending: 'BackendNotReady',
  Degraded: 'PartialFailure',
  Failed: 'ReconcileFailed',
}

function readyCondition(
  { phase, problems, resource }: Compiled,
  weakness: Weakness | undefined,
): Condition {
  const ready = phase === 'Ready' || phase === 'Active'
  const sentences = problems.map(({ path, message }) =>
    `${formatPath(path)} ${message}`.trimStart(),
  )
  if (phase === 'Pending' && resource.kind === 'ModelRef') sentences.push(pendingOn(resource))
  if (weakness !== undefined && phase !== 'Failed') sentences.push(weakness.message)
  const message = sentences.join('; ')
  if (problems.length === 0 && weakness?.status === 'Unknown') {
    return { type: 'Ready', status: 'Unknown', reason: 'Unknown', message }
  }
  return { type: 'Ready', status: ready ? 'True' : 'False', reason: readyReasons[phase], message }
}

function pendingOn({ routing, addressProblem, backend }: ModelRef): string {
  if (addressProblem !== undefined) return `spec.backendUrl ${addressProblem}`
  const missing =
    routing?.missing ??
    (backend.kind === 'ExternalModel' ? `there is no ExternalModel ${backend.name}` : '')
  return `spec.backendUrl is not set, ${missing === '' ? 'so nothing serves the model' : `and ${missing}`}`
}

/** Whether the gateway knows where to send requests. How requests ended is in `BackendReachable`. */
function runtimeCondition({ phase, resource }: Model): Condition {
  const type = 'RuntimeReady'
  if (phase === 'Ready') return { type, status: 'True', reason: 'RuntimeHealthy', message: '' }
  const message = pendingOn(resource)
  return { type, status: 'False', reason: 'RuntimeHealthFailure', message }
}

/** Kubernetes wants reasons in CamelCase. */
function reachableCondition(state: BackendState | undefined): Condition {
  const type = 'BackendReachable'
  if (state === undefined) return { type, status: 'Unknown', reason: 'NotAsked', message: '' }
  if (state.failure === null) return { type, status: 'True', reason: 'Answered', message: '' }
  const { reason, detail } = state.failure
  const words = reason.split('_').map((word) => word[0]?.toUpperCase() + word.slice(1))
  return { type, status: 'False', reason: words.join(''), message: detail }
}

function priorityCondition(subscription: CompiledSubscription, peers: Peers): Condition {
  const message = sharedWith(subscription, peers)
  return message === undefined
    ? { type: 'SpecPriorityDuplicate', status: 'False', reason: 'NoDuplicatePeers', message: '' }
    : { type: 'SpecPriorityDuplicate', status: 'True', reason: 'SharedPriority', message }
}

/**
 * One sentence for each priority that several subscriptions share, highest first: automatic
 * selection between them needs a tie-break.
 */
export function sharedPriorities(snapshot: Snapshot): readonly string[] {
  return [...byPriority(snapshot)]
    .filter(([, { count }]) => count > 1)
    .sort(([a], [b]) => b - a)
    .map(([priority, { count, first }]) => {
      const shown = joinFirst(first, peersShown, count)
      return `priority ${priority} is shared by ${count} Subscriptions: ${shown}`
    })
}

/** The subscriptions with one priority: their number, and the first names in order. */
interface Sharing {
  count: number
  readonly first: string[]
}

type Peers = ReadonlyMap<number, Sharing>

/** Enough to find the others; a message should not list thousands. */
const peersShown = 10

function byPriority({ subscriptions }: Snapshot): Peers {
  const peers = new Map<number, Sharing>()
  for (const { name, priority } of subscriptions.values()) {
    const sharing = getOrAdd(peers, priority, (): Sharing => ({ count: 0, first: [] }))
    sharing.count += 1
    // One more than is shown, because each subscription's message names only the others.
    insertSorted(sharing.first, name, peersShown + 1)
  }
  return peers
}

function sharedWith({ name, priority }: CompiledSubscription, peers: Peers): string | undefined {
  const sharing = peers.get(priority)
  if (sharing === undefined || sharing.count < 2) return undefined
  const others = sharing.first.filter((other) => other !== name)
  return `priority ${priority} is shared with ${joinFirst(others, peersShown, sharing.count - 1)}`
}
