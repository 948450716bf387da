/**
 * Which models resources name: a model is only usable if an AccessPolicy opens it and a
 * Subscription, which is not being deleted, covers it. Their phases do not matter.
 */

import { getOrAdd } from '../../formats/lists.ts'
import type { Model, Snapshot } from '../../models/rules/snapshot.ts'
import type { Condition } from './condition.ts'

type Subscriptions = Snapshot['subscriptions']

const known = new WeakMap<Subscriptions, ReadonlySet<string>>()

/** The models that Subscriptions cover; computed once for a map, which is never changed. */
function coveredBy(subscriptions: Subscriptions): ReadonlySet<string> {
  return getOrAdd(known, subscriptions, () => {
    const active = [...subscriptions.values()].filter(({ resource }) => !resource.metadata.deleting)
    return new Set(active.flatMap(({ modelKeys }) => modelKeys))
  })
}

/** The kinds of which no resource names the model. */
export function missingKindsFor(
  { key, policies }: Model,
  { subscriptions }: Pick<Snapshot, 'subscriptions'>,
): readonly ('AccessPolicy' | 'Subscription')[] {
  const missing: ('AccessPolicy' | 'Subscription')[] = []
  if (policies.length === 0) missing.push('AccessPolicy')
  if (!coveredBy(subscriptions).has(key)) missing.push('Subscription')
  return missing
}

/** The condition `GovernanceAttached` of a model, with the original's reasons. */
export function governanceCondition(model: Model, snapshot: Snapshot): Condition {
  const type = 'GovernanceAttached'
  const missing = missingKindsFor(model, snapshot)
  if (missing.length === 0) return { type, status: 'True', reason: 'GovernancePaired', message: '' }
  const message = missing.map((kind) => `no ${kind} names the model`).join('; ')
  return { type, status: 'False', reason: 'NoPairingFound', message }
}
