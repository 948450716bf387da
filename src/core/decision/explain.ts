/**
 * Why a request would be let through or refused: the decision of `decide` itself, with the steps
 * that it took, and every policy and subscription that had a part in it.
 */

import { mayUse } from './access.ts'
import type { Caller } from './caller.ts'
import { type AccessRequest, type Decision, decide, type Step, type World } from './decide.ts'
import { ownedBy } from './owners.ts'
import { findSubscription, type SelectionError, unusableReason } from './selection.ts'
import type { CompiledPolicy, CompiledSubscription, Model, Snapshot } from './snapshot.ts'

export interface Explanation {
  readonly decision: Decision
  /** Those that the decision reached. All but the last have passed; the last too, if it allows. */
  readonly steps: readonly Step[]
  /** The model that the request names, if it exists. */
  readonly model: Model | undefined
  /** The policies that name the model, ordered by name. */
  readonly policies: readonly ConsideredPolicy[]
  /**
   * The caller's subscriptions and the one that was named, ordered by name; empty if the decision
   * ended before them.
   */
  readonly subscriptions: readonly ConsideredSubscription[]
}

export interface ConsideredPolicy {
  readonly policy: CompiledPolicy
  /** Whether it opens the model to the caller. */
  readonly opens: boolean
}

export interface ConsideredSubscription {
  readonly name: string
  /** undefined: there is none of this name. */
  readonly subscription: CompiledSubscription | undefined
  /** Why it does not pay; undefined: it does, or would if it were the only one. */
  readonly passedOver: PassedOver | undefined
}

/** `not_named`: the key, or the request, names another subscription. */
export type PassedOver = Exclude<SelectionError, 'multiple_subscriptions'> | 'not_named'

/** Decides a request as Check does, and says how. Nothing is counted, and no window opens. */
export async function explain(request: AccessRequest, world: World): Promise<Explanation> {
  const steps: Step[] = []
  let model: Model | undefined
  const decision = await decide(request, world, (step, found) => {
    steps.push(step)
    if (step === 'access') model = found as Model
  })
  const { snapshot } = world
  const { caller } = request
  return {
    decision,
    steps,
    model,
    policies: caller && model ? policiesOf(model, caller, snapshot) : [],
    subscriptions:
      caller && model && steps.includes('subscription')
        ? subscriptionsOf(request, caller, model, snapshot)
        : [],
  }
}

function policiesOf({ key }: Model, caller: Caller, { policies }: Snapshot) {
  const naming = [...policies.values()].filter(({ modelKeys }) => modelKeys.includes(key))
  return naming.sort(byName).map((policy) => {
    const { users, groups } = policy.resource.subjects
    return { policy, opens: mayUse(caller, { users: new Set(users), groups: new Set(groups) }) }
  })
}

function byName(a: CompiledPolicy, b: CompiledPolicy): number {
  return a.resource.metadata.name < b.resource.metadata.name ? -1 : 1
}

function subscriptionsOf(
  { requestedSubscription }: AccessRequest,
  caller: Caller,
  model: Model,
  snapshot: Snapshot,
): readonly ConsideredSubscription[] {
  const requested = caller.by === 'key' ? caller.subscription : requestedSubscription
  const named = requested === undefined ? undefined : findSubscription(snapshot, requested)
  const considered = new Map<string, ConsideredSubscription>()
  for (const subscription of ownedBy(snapshot.owners, caller)) {
    const { name } = subscription
    const isNamed = requested === undefined || subscription === named
    const passedOver = isNamed ? unusableReason(subscription, model.key) : 'not_named'
    considered.set(name, { name, subscription, passedOver })
  }
  if (requested !== undefined && (named === undefined || !considered.has(named.name))) {
    // By the name as it was requested: another spelling would say that it exists.
    const passedOver = named === undefined ? 'not_found' : 'access_denied'
    considered.set(requested, { name: requested, subscription: named, passedOver })
  }
  return [...considered.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}
