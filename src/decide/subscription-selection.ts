/**
 * Selects the subscription: the named one, otherwise the only one (contract, 3.11); for a new key,
 * the best of several (contract, 3.12).
 */

import { ServiceError } from '../formats/errors.ts'
import type { Caller, Person } from '../identity/rules/caller.ts'
import type { CompiledSubscription, Snapshot } from '../models/rules/snapshot.ts'
import { mayUseModel, ownedSubscriptions } from './access.ts'

/** The selection's error codes, also sent as `x-ext-auth-reason`. */
export const selectionErrors = [
  'not_found',
  'access_denied',
  'multiple_subscriptions',
  'model_not_in_subscription',
  'model_unhealthy',
] as const

export type SelectionError = (typeof selectionErrors)[number]

/** Why no subscription is selected, and the unhealthy one if one was found. */
export interface SelectionRefusal {
  readonly error: SelectionError
  readonly found?: CompiledSubscription
}

export type Selection = CompiledSubscription | SelectionRefusal

/**
 * Selects the subscription. A named one must exist, belong to the caller, name the model and be healthy, checked in
 * this order. Without a name, exactly one of the caller's must match; priority matters only for new keys. `model` is
 * `<namespace>/<name>`, or other text as written. Without it, any phase but Failed is healthy.
 *
 * A named subscription that is being deleted is still returned. `isHealthySubscription` decides whether it still pays.
 */
export function chooseSubscription(
  snapshot: Snapshot,
  person: Person,
  requested: string | undefined,
  model: string | undefined,
): Selection {
  if (requested === undefined) return selectOnly(snapshot, person, model)
  const found = findSubscription(snapshot, requested)
  if (found === undefined) return { error: 'not_found' }
  if (!mayUseModel(person, found)) return { error: 'access_denied' }
  if (!includes(found, model)) return { error: 'model_not_in_subscription' }
  return serves(found, model) ? found : { error: 'model_unhealthy', found }
}

function selectOnly(snapshot: Snapshot, person: Person, model: string | undefined): Selection {
  let only: CompiledSubscription | undefined
  let found: CompiledSubscription | undefined
  for (const subscription of ownedSubscriptions(snapshot.owners, person)) {
    const reason = unusableReason(subscription, model)
    if (reason === 'model_not_in_subscription') continue
    if (reason === 'model_unhealthy') {
      found ??= subscription
      continue
    }
    if (only !== undefined) return { error: 'multiple_subscriptions' }
    only = subscription
  }
  if (only !== undefined) return only
  return found === undefined ? { error: 'not_found' } : { error: 'model_unhealthy', found }
}

/** Why a subscription of the caller cannot pay for the model; undefined if it can. */
export function unusableReason(
  subscription: CompiledSubscription,
  model: string | undefined,
): 'model_not_in_subscription' | 'model_unhealthy' | undefined {
  if (!includes(subscription, model)) return 'model_not_in_subscription'
  return isHealthySubscription(subscription) && serves(subscription, model)
    ? undefined
    : 'model_unhealthy'
}

/** Whether the subscription names the model, whether or not the model exists. */
function includes({ limits, missing }: CompiledSubscription, model: string | undefined): boolean {
  return model === undefined || limits.has(model) || missing.has(model)
}

function serves({ phase, limits }: CompiledSubscription, model: string | undefined): boolean {
  if (model === undefined) return phase !== 'Failed'
  return (phase === 'Active' || phase === 'Degraded') && limits.has(model)
}

/**
 * The subscription for a new key. A name may be bare or `namespace/name`. If it does not exist, belongs to someone
 * else, or no subscription is available, the refusal is the same, so that names cannot be guessed.
 */
export function selectForKey(
  snapshot: Snapshot,
  person: Person,
  requested: string | undefined,
): CompiledSubscription {
  if (requested === undefined) {
    const [best] = [...ownedSubscriptions(snapshot.owners, person)]
      .filter(isHealthySubscription)
      .sort(byPreference)
    if (best === undefined) throw new ServiceError('invalid_subscription')
    return best
  }
  const subscription = findSubscription(snapshot, requested)
  if (subscription === undefined || !mayUseModel(person, subscription)) {
    throw new ServiceError('invalid_subscription')
  }
  if (subscription.phase === 'Failed' || subscription.resource.metadata.deleting) {
    throw new ServiceError('subscription_not_ready')
  }
  return subscription
}

/** The subscription that a request names. A key always pays with its own; the header is ignored. */
export function requestedSubscriptionOf(
  caller: Caller,
  inHeader: string | undefined,
): string | undefined {
  return caller.by === 'key' ? caller.subscription : inHeader
}

/** The subscription with a name, bare or `namespace/name`. */
export function findSubscription(
  snapshot: Snapshot,
  requested: string,
): CompiledSubscription | undefined {
  const slash = requested.indexOf('/')
  if (slash < 0) return snapshot.subscriptions.get(requested)
  const named = snapshot.subscriptions.get(requested.slice(slash + 1))
  return named?.resource.metadata.namespace === requested.slice(0, slash) ? named : undefined
}

/** Whether it may be used at all: Active or Degraded, and not being deleted. */
export function isHealthySubscription({ phase, resource }: CompiledSubscription): boolean {
  return (phase === 'Active' || phase === 'Degraded') && !resource.metadata.deleting
}

/** All healthy subscriptions of the caller, ordered by name. */
export function accessibleSubscriptions(
  snapshot: Snapshot,
  person: Person,
): readonly CompiledSubscription[] {
  return [...ownedSubscriptions(snapshot.owners, person)]
    .filter(isHealthySubscription)
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Of a caller's subscriptions that would pay for the model, the one that a new key prefers. */
export function bestPayingSubscription(
  { owners }: Snapshot,
  person: Person,
  model: string,
): CompiledSubscription | undefined {
  let best: CompiledSubscription | undefined
  for (const each of ownedSubscriptions(owners, person)) {
    if (unusableReason(each, model) !== undefined) continue
    if (best === undefined || byPreference(each, best) < 0) best = each
  }
  return best
}

/** Higher priority first, then the larger limit, then the name in byte order. */
function byPreference(a: CompiledSubscription, b: CompiledSubscription): number {
  return (
    b.priority - a.priority ||
    b.maxLimit - a.maxLimit ||
    Buffer.compare(Buffer.from(a.name), Buffer.from(b.name))
  )
}
