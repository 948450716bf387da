/** Step `subscription`: which Subscription pays. One that is being deleted does not (contract, 8.1). */

import type { Caller } from '../../identity/rules/caller.ts'
import { capsOf } from '../../keys/rules/compiled-caps.ts'
import type { AccessRequest } from '../access-request.ts'
import type { Denial } from '../decision.ts'
import { bestPaying, isHealthy, type SelectionError, select } from '../selection.ts'
import type { DecisionContext, Found } from './step.ts'

export function selectSubscription(context: DecisionContext): Denial | Found {
  const { request, snapshot, caller, model } = context
  const selected = select(snapshot, caller, subscriptionOf(request, caller), model.key)
  if ('error' in selected) return denySubscription(selected.error, context)
  if (!isHealthy(selected)) return denySubscription('model_unhealthy', context)
  return { subscription: selected }
}

/** A key always pays with its own subscription; the header is ignored. */
export function subscriptionOf(request: AccessRequest, caller: Caller): string | undefined {
  return caller.by === 'key' ? caller.subscription : request.requestedSubscription
}

/**
 * The header must not reveal names: for a token, foreign and unknown give the same error. Whoever holds a
 * key with caps is not told what else its owner has.
 */
function denySubscription(
  error: SelectionError,
  { request, caller, model, snapshot }: DecisionContext,
): Denial {
  const code = 'subscription_not_allowed'
  if (error === 'multiple_subscriptions') {
    return { allowed: false, code, selection: error, detail: { about: 'several' } }
  }
  const name = subscriptionOf(request, caller)
  const hidden = error === 'not_found' && name !== undefined && caller.by === 'token'
  const selection = hidden ? 'access_denied' : error
  const refusal = { allowed: false, code, selection } as const
  if (capsOf(caller) !== undefined) return refusal
  const named =
    caller.by === 'key'
      ? { by: caller.by, name: caller.subscription }
      : name === undefined
        ? undefined
        : { by: caller.by }
  const other = bestPaying(snapshot, caller, model.key)?.name
  return { ...refusal, detail: { about: 'subscription', error: selection, named, other } }
}
