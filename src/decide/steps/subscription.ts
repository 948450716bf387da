/** Step `subscription`: which Subscription pays. One that is being deleted does not (contract, 8.1). */

import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import type { Denial } from '../decision.ts'
import {
  bestPayingSubscription,
  chooseSubscription,
  isHealthySubscription,
  requestedSubscriptionOf,
  type SelectionError,
} from '../subscription-selection.ts'
import type { DecisionContext, StepFindings } from './step.ts'

export function resolveSubscription(context: DecisionContext): Denial | StepFindings {
  const { request, snapshot, caller, model } = context
  const requested = requestedSubscriptionOf(caller, request.requestedSubscription)
  const selected = chooseSubscription(snapshot, caller, requested, model.key)
  if ('error' in selected) return denySubscription(selected.error, context)
  if (!isHealthySubscription(selected)) return denySubscription('model_unhealthy', context)
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
  const name = requestedSubscriptionOf(caller, request.requestedSubscription)
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
  const other = bestPayingSubscription(snapshot, caller, model.key)?.name
  return { ...refusal, detail: { about: 'subscription', error: selection, named, other } }
}
