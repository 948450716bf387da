/** Step `subscription`: which Subscription pays. One that is being deleted does not (contract, 8.1). */

import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import type { Denial } from '../decision.ts'
import { bestPaying, isHealthy, requestedBy, type SelectionError, select } from '../selection.ts'
import type { DecisionContext, Found } from './step.ts'

export function resolveSubscription(context: DecisionContext): Denial | Found {
  const { request, snapshot, caller, model } = context
  const requested = requestedBy(caller, request.requestedSubscription)
  const selected = select(snapshot, caller, requested, model.key)
  if ('error' in selected) return denySubscription(selected.error, context)
  if (!isHealthy(selected)) return denySubscription('model_unhealthy', context)
  return { subscription: selected }
}

/**
 * The header must not reveal names: for a token, foreign and unknown give the same error. A holder of a
 * key with caps does not learn what else its owner has.
 */
function denySubscription(
  error: SelectionError,
  { request, caller, model, snapshot }: DecisionContext,
): Denial {
  const code = 'subscription_not_allowed'
  if (error === 'multiple_subscriptions') {
    return { allowed: false, code, selection: error, detail: { about: 'several' } }
  }
  const name = requestedBy(caller, request.requestedSubscription)
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
