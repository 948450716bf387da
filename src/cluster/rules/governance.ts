/**
 * Which models resources name: a model is only usable if an AccessPolicy opens it and a
 * Subscription, which is not being deleted, covers it. Their phases do not matter.
 */

import type { Metadata } from '../../kinds/metadata.ts'
import type { Model, References, Snapshot } from '../../models/rules/snapshot.ts'
import type { Condition } from './condition.ts'

type All = ReadonlyMap<string, Named>
type Named = Pick<References, 'modelKeys'> & { readonly resource: { readonly metadata: Metadata } }

const known = new WeakMap<All, ReadonlySet<string>>()

/** The models that these resources name; computed once for a map, which is never changed. */
function namedBy(all: All): ReadonlySet<string> {
  const before = known.get(all)
  if (before !== undefined) return before
  const named = new Set<string>()
  for (const { modelKeys, resource } of all.values()) {
    if (!resource.metadata.deleting) for (const key of modelKeys) named.add(key)
  }
  known.set(all, named)
  return named
}

/** The kinds of which no resource names the model. */
export function missingFor(
  { key }: Model,
  { policies, subscriptions }: Pick<Snapshot, 'policies' | 'subscriptions'>,
): readonly ('AccessPolicy' | 'Subscription')[] {
  const missing: ('AccessPolicy' | 'Subscription')[] = []
  if (!namedBy(policies).has(key)) missing.push('AccessPolicy')
  if (!namedBy(subscriptions).has(key)) missing.push('Subscription')
  return missing
}

/** The condition `GovernanceAttached` of a model, with the original's reasons. */
export function governanceCondition(model: Model, snapshot: Snapshot): Condition {
  const type = 'GovernanceAttached'
  const missing = missingFor(model, snapshot)
  if (missing.length === 0) return { type, status: 'True', reason: 'GovernancePaired', message: '' }
  const message = missing.map((kind) => `no ${kind} names the model`).join('; ')
  return { type, status: 'False', reason: 'NoPairingFound', message }
}
