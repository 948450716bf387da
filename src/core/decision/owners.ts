/** Finds a person's subscriptions by an index, without searching all of them. */

import { addTo } from '../formats/lists.ts'
import type { Person } from './caller.ts'
import type { CompiledSubscription } from './snapshot.ts'

type ByName = ReadonlyMap<string, readonly CompiledSubscription[]>

/** Subscriptions by the users and by the groups that own them. */
export interface Owners {
  readonly users: ByName
  readonly groups: ByName
}

export const noOwners: Owners = { users: new Map(), groups: new Map() }

/** Builds the index, one subscription per step. */
export function* indexOwners(
  subscriptions: Iterable<CompiledSubscription>,
): Generator<void, Owners> {
  const users = new Map<string, CompiledSubscription[]>()
  const groups = new Map<string, CompiledSubscription[]>()
  for (const subscription of subscriptions) {
    for (const user of subscription.users) addTo(users, user, subscription)
    for (const group of subscription.groups) addTo(groups, group, subscription)
    yield
  }
  return { users, groups }
}

/** All subscriptions of a person, each once. */
export function* ownedBy(
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
