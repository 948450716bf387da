/** Step `access`: whether an AccessPolicy opens the model to the caller. */

import { mayUse } from '../access.ts'
import type { Denial } from '../decision.ts'
import { denyModel } from './model.ts'
import type { DecisionContext } from './step.ts'

export function checkAccess({ request, caller, model }: DecisionContext): Denial | undefined {
  return mayUse(caller, model) ? undefined : denyModel(request)
}
