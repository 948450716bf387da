/**
 * Whether a caller may use a model: the union of all policies that name it (contract, 8.1); and who owns which
 * Subscriptions.
 */

import type { Caller, Person } from '../identity/rules/caller.ts'
import { isModelAllowed } from '../keys/rules/caps-of-caller.ts'
import type { Subscription } from '../kinds/resources.ts'
import type { CompiledSubscription, Model, Owners } from '../models/rules/snapshot.ts'
import { poolOfGroup } from '../ratelimit/rules/counter-key.ts'

export function mayUseModel(caller: Person, model: Pick<Model, 'users' | 'groups'>): boolean {
  if (model.users.has(caller.user)) return true
  if (model.groups.size === 0) return false
  for (const group of caller.groups) if (model.groups.has(group)) return true
  return false
}

/** As `mayUseModel`, and the key's own models include it. */
export function mayCallModel(
  caller: Caller,
  model: Pick<Model, 'key' | 'users' | 'groups'>,
): boolean {
  return mayUseModel(caller, model) && isModelAllowed(caller, model.key)
}

/** All subscriptions of a person, each once, by an index instead of a search. */
export function* ownedSubscriptions(
  { users, groups }: Owners,
  person: Person,
): Generator<CompiledSubscription, void> {
  const seen = new Set<CompiledSubscription>()
  for (const list of [users.get(person.user), ...person.groups.map((each) => groups.get(each))]) {
    for (const subscription of list ?? []) {
      if (!seen.has(subscription)) yield subscription
      seen.add(subscription)
    }
  }
}

/** The first of the subscription's groups that the caller is in; empty if the user owns it by name. */
export function owningGroup({ owner }: Subscription, groups: readonly string[]): string {
  return owner.groups.find((group) => groups.includes(group)) ?? ''
}

/** The group whose counter the caller uses, as lines name it, or '' for the counter of users that the Subscription lists by name. */
export function poolOfCaller(subscription: Subscription, groups: readonly string[]): string {
  return poolOfGroup(owningGroup(subscription, groups))
}
