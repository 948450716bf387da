/** Step `cap`: whether the key's list of models includes the model. */

import { isModelAllowed } from '../../keys/rules/caps-of-caller.ts'
import type { Denial } from '../decision.ts'
import { denyModel } from './model.ts'
import type { DecisionContext } from './step.ts'

export function checkCap({ request, caller, model }: DecisionContext): Denial | undefined {
  return isModelAllowed(caller, model.key) ? undefined : denyModel(request, 'key_models')
}
