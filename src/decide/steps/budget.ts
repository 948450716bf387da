/** Step `budget`: under a limit on money that refuses nothing is free, so what is not counted is closed. */

import { refuseOperation } from '../../operations/operations.ts'
import type { Denial } from '../decision.ts'
import type { DecisionContext } from './step.ts'

export function checkBudget(context: DecisionContext): Denial | undefined {
  if (!hasCostLimit(context)) return undefined
  const { request, rules, model } = context
  const { operation } = request.target
  const { allPaths } = model.resource.server
  const counted = { ...rules, unmetered: 'closed' } as const
  const closed = refuseOperation(operation, request.method, counted, allPaths)
  return closed && { allowed: false, ...closed }
}

function hasCostLimit({ subscription, model }: DecisionContext): boolean {
  return subscription.tariffs.get(model.key)?.hasCostLimit === true
}
