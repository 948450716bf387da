/** Step `budget`: under a limit on money that refuses nothing is free, so what has no price or is not counted is closed. */

import type { KeyLimits } from '../../identity/rules/caller.ts'
import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import { isListing, refuseOperation } from '../../operations/operations.ts'
import { type Denial, deny } from '../decision.ts'
import type { DecisionContext } from './step.ts'

export function checkBudget(context: DecisionContext): Denial | undefined {
  const { request, rules, model, subscription } = context
  const { hasCostLimit, isPriced } = subscription.tariffs.get(model.key) ?? noTariff
  const { operation } = request.target
  const isOfKey = keyLimitsOn(context)?.hasCostLimit === true
  if (!hasCostLimit && !isOfKey) return undefined
  if (!isPriced && !isListing(operation, request.method)) {
    return deny('subscription_not_allowed', { about: 'unpriced', subscription: subscription.name })
  }
  const { allPaths } = model.resource.server
  const counted = { ...rules, unmetered: 'closed' } as const
  const closed = refuseOperation(operation, request.method, counted, allPaths)
  return closed && { allowed: false, ...closed }
}

const noTariff = { hasCostLimit: false, isPriced: false }

/** Those of the caller's key on the model. */
export function keyLimitsOn({
  caller,
  model,
  subscription,
}: Pick<DecisionContext, 'caller' | 'model' | 'subscription'>): KeyLimits | undefined {
  return capsOf(caller)?.limitsOn?.(model.key, subscription.calendar)
}
