/**
 * Step `budget`: under an enforced limit on money nothing is free, so a model without a price and operations that are
 * not counted are closed.
 */

import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import { isListing, refuseOperation } from '../../operations/operations.ts'
import { type Denial, deny } from '../decision.ts'
import type { DecisionContext, StepFindings } from './step.ts'

export function checkBudget(context: DecisionContext): Denial | StepFindings {
  const { request, rules, caller, model, subscription } = context
  const terms = subscription.terms.get(model.key)
  const keyLimits = capsOf(caller)?.limitsOn?.(model.key, subscription.calendar)
  const found = { terms, keyLimits }
  const { hasCostLimit, isPriced } = terms?.tariff ?? noTariff
  if (!hasCostLimit && !keyLimits?.hasCostLimit) return found
  const { target, method } = request
  if (!isPriced && !isListing(target.operation, method)) {
    return deny('subscription_not_allowed', { about: 'unpriced', subscription: subscription.name })
  }
  const { allPaths } = model.resource.server
  const closed = refuseOperation(target.operation, method, rules, allPaths, 'closed')
  return closed ? { allowed: false, ...closed } : found
}

const noTariff = { hasCostLimit: false, isPriced: false }
