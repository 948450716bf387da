/** Snapshot → the status of each resource, as `status` in the cluster shows it (contract, 7.2). */

import { showPath } from './fields.ts'
import { type CompiledSubscription, type Phase, resourceKey, type Snapshot } from './snapshot.ts'

export interface Condition {
  readonly type: 'Ready' | 'SpecPriorityDuplicate'
  readonly status: 'True' | 'False'
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

/** The status of every resource of the snapshot, ordered by kind, namespace and name. */
export function statusOf(snapshot: Snapshot): readonly ResourceStatus[] {
  const statuses: ResourceStatus[] = []
  const peers = byPriority(snapshot)
  const add = (compiled: Compiled, more: readonly Condition[] = []): void => {
    const { kind, metadata } = compiled.resource
    const { namespace, name } = metadata
    const conditions = [readyCondition(compiled, snapshot), ...more]
    statuses.push({ kind, namespace, name, phase: compiled.phase, conditions })
  }
  for (const model of snapshot.models.values()) add(model)
  for (const policy of snapshot.policies) add(policy)
  for (const subscription of snapshot.subscriptions.values()) {
    add(subscription, [priorityCondition(subscription, peers)])
  }
  if (snapshot.tenant !== undefined) add({ resource: snapshot.tenant, phase: 'Active' })
  return statuses.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
}

type Compiled = Pick<CompiledSubscription, 'phase'> & {
  readonly resource: Parameters<typeof resourceKey>[0]
}

const readyReasons: Readonly<Record<Phase, string>> = {
  Ready: 'Reconciled',
  Active: 'Reconciled',
  Pending: 'BackendNotReady',
  Degraded: 'PartialFailure',
  Failed: 'ReconcileFailed',
}

function readyCondition({ resource, phase }: Compiled, snapshot: Snapshot): Condition {
  const key = resourceKey(resource)
  const ready = phase === 'Ready' || phase === 'Active'
  const problems = snapshot.problems
    .filter((problem) => problem.resource === key)
    .map(({ path, message }) => `${showPath(path)} ${message}`)
  if (phase === 'Pending') problems.push('spec.backendUrl is not set, so nothing serves the model')
  return {
    type: 'Ready',
    status: ready ? 'True' : 'False',
    reason: readyReasons[phase],
    message: problems.join('; '),
  }
}

function priorityCondition(subscription: CompiledSubscription, peers: Peers): Condition {
  const message = sharedPriority(subscription, peers)
  return message === undefined
    ? { type: 'SpecPriorityDuplicate', status: 'False', reason: 'NoDuplicatePeers', message: '' }
    : { type: 'SpecPriorityDuplicate', status: 'True', reason: 'SharedPriority', message }
}

/** A sentence for each subscription whose priority is not its own: automatic choice needs a tie-break. */
export function sharedPriorities(snapshot: Snapshot): readonly string[] {
  const peers = byPriority(snapshot)
  return [...snapshot.subscriptions.values()].flatMap((subscription) => {
    const message = sharedPriority(subscription, peers)
    return message === undefined ? [] : [`Subscription ${subscription.name}: ${message}`]
  })
}

/** Names of subscriptions by their priority, sorted. */
type Peers = ReadonlyMap<number, readonly string[]>

function byPriority({ subscriptions }: Snapshot): Peers {
  const groups = Map.groupBy(subscriptions.values(), ({ priority }) => priority)
  return new Map(
    [...groups].map(([priority, sharing]) => [priority, sharing.map(({ name }) => name).sort()]),
  )
}

/** Enough to find the others by; a message need not list thousands. */
const peersShown = 10

function sharedPriority(
  { name, priority }: CompiledSubscription,
  peers: Peers,
): string | undefined {
  const sharing = peers.get(priority) ?? []
  if (sharing.length < 2) return undefined
  const others = sharing.slice(0, peersShown + 1).filter((other) => other !== name)
  const shown = others.slice(0, peersShown).join(', ')
  const more = sharing.length - 1 - Math.min(others.length, peersShown)
  return `priority ${priority} is shared with ${shown}${more > 0 ? ` and ${more} more` : ''}`
}

function nameOf({ kind, namespace, name }: ResourceStatus): string {
  return `${kind}/${namespace}/${name}`
}
