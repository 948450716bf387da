/** Step `model`: which model the request asks for. */

import type { Model } from '../../models/rules/snapshot.ts'
import { isNamedByPath } from '../../operations/operations.ts'
import { parseFoundFields } from '../../operations/restrictions.ts'
import type { AccessRequest } from '../access-request.ts'
import { type Denial, deny } from '../decision.ts'
import { type AmbiguousName, findModelByName, maxAmbiguousShown } from '../name-lookup.ts'
import type { DecisionContext, StepFindings } from './step.ts'

/** The gateway takes no body with these. */
const bodiless: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

export function findModel(context: DecisionContext): Denial | StepFindings {
  const model = lookUp(context)
  return 'allowed' in model ? model : { model }
}

/** The requested model, by path or by body. Unknown and forbidden models give the same error. */
function lookUp({ request, snapshot, caller }: DecisionContext): Model | Denial {
  const { target, method, bodyModel, bodyProblem } = request
  if (target.modelKey !== undefined) {
    return snapshot.models.get(target.modelKey) ?? denyModel(request)
  }
  const { operation } = target
  if (isNamedByPath(operation)) {
    return deny('model_path_needed', { about: 'path_needed', operation })
  }
  // Requests with other methods should have a body; the refusal then says that it is missing.
  if (bodyProblem === undefined && bodiless.has(method)) {
    return deny('model_path_needed', { about: 'path_needed', operation, method })
  }
  const problem = parseFoundFields(bodyProblem) === undefined ? bodyProblem : undefined
  if (problem !== undefined || bodyModel === undefined) {
    return deny('invalid_body', { about: 'body', problem })
  }
  const asking = { caller, requestedSubscription: request.requestedSubscription }
  const found = findModelByName(bodyModel, asking, snapshot)
  if (found !== undefined) return 'key' in found ? found : denyAmbiguous(found, operation)
  if (caller.by !== 'key' || !caller.caps) return denyModel(request)
  // A name that only the caps exclude is refused because of them; that it means several models is not disclosed.
  const { caps: _, ...uncapped } = caller
  const left = findModelByName(bodyModel, { ...asking, caller: uncapped }, snapshot)
  if (left === undefined) return denyModel(request)
  return 'key' in left ? left : denyModel(request, 'key_models')
}

function denyAmbiguous({ models, isListed }: AmbiguousName, operation: string): Denial {
  const paths = models.map(({ key }) => `/${key}${operation}`).sort()
  const areMore = paths.length > maxAmbiguousShown
  const shown = paths.slice(0, maxAmbiguousShown)
  return deny('model_ambiguous', { about: 'ambiguous', paths: shown, areMore, isListed })
}

/** An unknown model gets the same response as one that the caller may not use. */
export function denyModel(
  { target, bodyModel }: AccessRequest,
  about: 'model' | 'key_models' = 'model',
): Denial {
  const name = target.modelKey ?? bodyModel
  return deny('model_not_allowed', name === undefined ? undefined : { about, name })
}
