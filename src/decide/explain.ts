/**
 * Explains why a request would be allowed or refused: the decision itself, the steps that it took, and every policy and
 * subscription involved.
 */

import type { Caller } from '../identity/rules/caller.ts'
import { parsePublishedName } from '../models/rules/published-names.ts'
import { hasServedNames } from '../models/rules/served-names.ts'
import type {
  CompiledPolicy,
  CompiledSubscription,
  Model,
  Snapshot,
} from '../models/rules/snapshot.ts'
import { isListing } from '../operations/operations.ts'
import { mayUseModel, ownedSubscriptions } from './access.ts'
import type { AccessRequest } from './access-request.ts'
import type { DecisionTrace } from './decide.ts'
import type { Decision } from './decision.ts'
import { modelsListingName, modelsWithoutAccess } from './name-lookup.ts'
import {
  findSubscription,
  requestedSubscriptionOf,
  type SelectionError,
  unusableReason,
} from './subscription-selection.ts'

export interface Explanation extends DecisionTrace {
  /** If it is refused because no policy opens a model with this name to the caller: these models. */
  readonly closed: readonly Model[]
  /** If no model is closed: models of any Subscription whose servers list the name. */
  readonly outside: readonly Model[]
  /** The policies that name the model, or the closed ones, ordered by name. */
  readonly policies: readonly ConsideredPolicy[]
  /**
   * The caller's subscriptions and the one that was named, ordered by name; empty if the decision ended before them.
   */
  readonly subscriptions: readonly ConsideredSubscription[]
  /** If the model's server lists other names than the one that it would be sent. */
  readonly unlisted?: UnlistedName | undefined
}

/** A name that is sent on unchanged to a server which does not list it, so that most servers refuse it. */
interface UnlistedName {
  readonly sent: string
  /** Not empty. */
  readonly listed: readonly string[]
}

interface ConsideredPolicy {
  readonly policy: CompiledPolicy
  /** Whether it opens the model to the caller. */
  readonly opens: boolean
}

export interface ConsideredSubscription {
  readonly name: string
  /** Undefined if none has this name. */
  readonly subscription: CompiledSubscription | undefined
  /** Why it does not pay, or undefined if it does, or would if it were the only one. */
  readonly passedOver: PassedOver | undefined
}

/** `not_named`: the key, or the request, names another subscription. */
type PassedOver = Exclude<SelectionError, 'multiple_subscriptions'> | 'not_named'

/** Explains a request after its limits: `decision` is the trace's, with limits. Nothing is counted. */
export function explain(
  request: AccessRequest,
  { steps: before, model: found, decision: granted }: DecisionTrace,
  decision: Decision,
  snapshot: Snapshot,
): Explanation {
  const { caller } = request
  const closed = refusesModel(decision) ? modelsWithoutAccess(request, snapshot) : []
  const model = found ?? (closed.length === 1 ? closed[0] : undefined)
  // A body's name is looked up among the models that the caller may use; here the others count too.
  const isClosed = closed.length > 0 && before.at(-1) === 'model'
  const isLimited = granted.allowed && granted.limits.length > 0
  const steps = [...before, ...(isClosed ? after.access : isLimited ? after.limits : [])]
  return {
    decision,
    steps,
    model,
    closed,
    outside:
      refusesModel(decision) && closed.length === 0 ? modelsListingName(request, snapshot) : [],
    unlisted: model && unlistedName(request, model, snapshot),
    policies: caller ? policiesOf(model ? [model] : closed, caller, snapshot) : [],
    subscriptions:
      caller && model && steps.includes('subscription')
        ? subscriptionsOf(request, caller, model, snapshot)
        : [],
  }
}

const after = { access: ['access'], limits: ['limits'] } as const

/** If only the path names the model, the body is assumed to have the ModelRef's name. */
function unlistedName(
  { target: { modelKey, operation }, method, bodyModel }: AccessRequest,
  model: Model,
  { servedNames }: Snapshot,
): UnlistedName | undefined {
  if (isListing(operation, method) || !hasServedNames(model)) return undefined
  const sent = modelKey === undefined ? bodyModel : model.resource.metadata.name
  const listed = servedNames.listOf(model) ?? []
  // The name in a published id is replaced by one that the server knows; llama.cpp's server takes any.
  if (sent === undefined || parsePublishedName(sent) !== undefined) return undefined
  if (listed.length === 0 || listed.includes(sent) || servedNames.isLlamaCpp(model))
    return undefined
  return { sent, listed }
}

/** Whether the caller may not use the model, or there is none. */
function refusesModel(decision: Decision): boolean {
  if (decision.allowed || decision.code !== 'model_not_allowed') return false
  return decision.detail?.about !== 'key_models'
}

function policiesOf(named: readonly Model[], caller: Caller, { policies }: Snapshot) {
  const naming = [...new Set(named.flatMap((model) => model.policies))].sort()
  return naming.flatMap((name) => {
    const policy = policies.get(name)
    if (policy === undefined) return []
    const { users, groups } = policy.resource.subjects
    return [
      { policy, opens: mayUseModel(caller, { users: new Set(users), groups: new Set(groups) }) },
    ]
  })
}

function subscriptionsOf(
  { requestedSubscription }: AccessRequest,
  caller: Caller,
  model: Model,
  snapshot: Snapshot,
): readonly ConsideredSubscription[] {
  const requested = requestedSubscriptionOf(caller, requestedSubscription)
  const named = requested === undefined ? undefined : findSubscription(snapshot, requested)
  const considered = new Map<string, ConsideredSubscription>()
  for (const subscription of ownedSubscriptions(snapshot.owners, caller)) {
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
