/** Finds a person's subscriptions by an index, without searching all of them. */

import type { Person } from '../identity/rules/caller.ts'
import type { CompiledSubscription, Owners } from '../models/rules/snapshot.ts'

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
