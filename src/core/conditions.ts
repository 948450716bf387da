/** Snapshot → the status of each resource, as `status` in the cluster shows it (contract, 7.2). */

import { showPath } from './fields.ts'
import type { ModelFailure } from './model-failure.ts'
import type { CompiledSubscription, Phase, References, resourceKey, Snapshot } from './snapshot.ts'

export interface Condition {
  readonly type: 'Ready' | 'SpecPriorityDuplicate' | 'BackendReachable'
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason: string
  readonly message: string
}

export interface ResourceStatus {
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly phase: Phase
  readonly conditions: readonly Condition[]
}

/** How the last request to a model's server ended; null: with an answer. */
export interface BackendState {
  readonly failure: ModelFailure | null
}

/**
 * The status of every resource of the snapshot, ordered by kind, namespace and name; with
 * `backendOf`, models say whether their server is reached.
 */
export function statusOf(
  snapshot: Snapshot,
  backendOf?: (model: string) => BackendState | undefined,
): readonly ResourceStatus[] {
  const peers = byPriority(snapshot)
  const statuses = [
    ...[...snapshot.policies.values()].map((policy) => toStatus(policy)),
    ...[...snapshot.models.values()].map((model) =>
      toStatus(
        { ...model, problems: [] },
        backendOf && model.cluster !== undefined ? [reachableCondition(backendOf(model.key))] : [],
      ),
    ),
    ...[...snapshot.subscriptions.values()].map((subscription) =>
      toStatus(subscription, [priorityCondition(subscription, peers)]),
    ),
  ]
  if (snapshot.tenant !== undefined) {
    statuses.push(toStatus({ resource: snapshot.tenant, phase: 'Active', problems: [] }))
  }
  return statuses
    .map((status) => ({ status, key: `${status.kind}/${status.namespace}/${status.name}` }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ status }) => status)
}

type Compiled = Pick<References, 'phase' | 'problems'> & {
  readonly resource: Parameters<typeof resourceKey>[0]
}

function toStatus(compiled: Compiled, more: readonly Condition[] = []): ResourceStatus {
  const { kind, metadata } = compiled.resource
  const { namespace, name } = metadata
  const conditions = [readyCondition(compiled), ...more]
  return { kind, namespace, name, phase: compiled.phase, conditions }
}

const readyReasons: Readonly<Record<Phase, string>> = {
  Ready: 'Reconciled',
  Active: 'Reconciled',
  Pending: 'BackendNotReady',
  Degraded: 'PartialFailure',
  Failed: 'ReconcileFailed',
}

function readyCondition({ phase, problems }: Compiled): Condition {
  const ready = phase === 'Ready' || phase === 'Active'
  const sentences = problems.map(({ path, message }) => `${showPath(path)} ${message}`)
  if (phase === 'Pending') sentences.push('spec.backendUrl is not set, so nothing serves the model')
  return {
    type: 'Ready',
    status: ready ? 'True' : 'False',
    reason: readyReasons[phase],
    message: sentences.join('; '),
  }
}

/** Reasons are in the case that Kubernetes wants them. */
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
 * A sentence for each priority that several subscriptions have, the highest first: automatic
 * choice between them needs a tie-break.
 */
export function sharedPriorities(snapshot: Snapshot): readonly string[] {
  return [...byPriority(snapshot)]
    .filter(([, { count }]) => count > 1)
    .sort(([a], [b]) => b - a)
    .map(([priority, { count, first }]) => {
      const shown = shorten(first.slice(0, peersShown), count)
      return `priority ${priority} is shared by ${count} Subscriptions: ${shown}`
    })
}

/** Of the subscriptions with one priority: how many, and the first names in order. */
interface Sharing {
  count: number
  readonly first: string[]
}

type Peers = ReadonlyMap<number, Sharing>

/** Enough to find the others by; a message need not list thousands. */
const peersShown = 10

function byPriority({ subscriptions }: Snapshot): Peers {
  const peers = new Map<number, Sharing>()
  for (const { name, priority } of subscriptions.values()) {
    const sharing = peers.get(priority)
    if (sharing === undefined) {
      peers.set(priority, { count: 1, first: [name] })
      continue
    }
    sharing.count += 1
    const { first } = sharing
    // One more than is shown: whoever is among them names the others.
    if (first.length > peersShown && name > (first[peersShown] as string)) continue
    const after = first.findIndex((other) => name < other)
    first.splice(after < 0 ? first.length : after, 0, name)
    first.length = Math.min(first.length, peersShown + 1)
  }
  return peers
}

function sharedWith({ name, priority }: CompiledSubscription, peers: Peers): string | undefined {
  const sharing = peers.get(priority)
  if (sharing === undefined || sharing.count < 2) return undefined
  const others = sharing.first.filter((other) => other !== name).slice(0, peersShown)
  return `priority ${priority} is shared with ${shorten(others, sharing.count - 1)}`
}

function shorten(names: readonly string[], count: number): string {
  const more = count - names.length
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
