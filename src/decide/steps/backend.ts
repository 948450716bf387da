/** Step `backend`: whether the model has a server. */

import { type Denial, deny } from '../decision.ts'
import type { DecisionContext } from './step.ts'

export function checkBackend({ model }: DecisionContext): Denial | undefined {
  return model.cluster === undefined ? deny('model_unavailable') : undefined
}
