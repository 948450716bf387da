/** Step `cap`: whether the model is among those of the key. */

import { isModelAllowed } from '../../keys/rules/caps-of-caller.ts'
import type { Denial } from '../decision.ts'
import { denyModel } from './model.ts'
import type { DecisionContext } from './step.ts'

export function checkCap({ request, caller, model }: DecisionContext): Denial | undefined {
  return isModelAllowed(caller, model.key) ? undefined : denyModel(request, 'key_models')
}
