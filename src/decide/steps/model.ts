/** Step `model`: which model the request asks for. */

import type { Caller } from '../../identity/rules/caller.ts'
import { publishedModels, readPublishedName } from '../../models/rules/published-names.ts'
import type { Model, Opened, Snapshot } from '../../models/rules/snapshot.ts'
import { foundFields } from '../../operations/body-fields.ts'
import { isNamedByPath } from '../../operations/operations.ts'
import { mayCall, mayUse } from '../access.ts'
import type { AccessRequest } from '../access-request.ts'
import { type Denial, deny } from '../decision.ts'
import { select } from '../selection.ts'
import type { DecisionContext, Found } from './step.ts'
import { subscriptionOf } from './subscription.ts'

export function findModel(context: DecisionContext): Denial | Found {
  const model = lookUp(context)
  return 'allowed' in model ? model : { model }
}

/** The requested model, by path or by body. Unknown and forbidden models give the same error. */
function lookUp({ request, snapshot, caller }: DecisionContext): Model | Denial {
  const { target, bodyModel, bodyProblem } = request
  if (target.modelKey !== undefined) {
    return snapshot.models.get(target.modelKey) ?? denyModel(request)
  }
  const { operation } = target
  if (isNamedByPath(operation)) {
    return deny('model_path_needed', { about: 'path_needed', operation })
  }
  const problem = foundFields(bodyProblem) === undefined ? bodyProblem : undefined
  if (problem !== undefined || bodyModel === undefined) {
    return deny('invalid_body', { about: 'body', problem })
  }
  const find = (by: Caller) => findByName(bodyModel, request, snapshot, by)
  const found = find(caller)
  if (found !== undefined || caller.by !== 'key' || !caller.caps) return found ?? denyModel(request)
  // A model that only the caps leave out is refused because of them.
  const { caps: _, ...uncapped } = caller
  return find(uncapped) ?? denyModel(request)
}

/**
 * The model that a body names. A name that a ModelRef declares is not looked up among those that
 * servers list, unless another namespace owned it before: that one's callers keep it. An id of the
 * form `publishers/…` is never looked up among other names (published-names.ts).
 */
function findByName(
  name: string,
  request: AccessRequest,
  snapshot: Snapshot,
  caller: Caller,
): Model | Denial | undefined {
  const usableOf = (models: readonly Model[]) => models.filter((each) => mayCall(caller, each))
  const published = readPublishedName(name)
  if (published !== undefined) {
    return pickCovered(usableOf(publishedModels(published, snapshot)), request, snapshot, caller)
  }

  const declared = snapshot.modelsByName.get(name) ?? none
  const served = snapshot.servedNames.get(name)
  if (served === undefined) return pickCovered(usableOf(declared), request, snapshot, caller)

  const isOwn = ({ resource }: Model) => resource.metadata.namespace === served.namespace
  const own = declared.filter(isOwn)
  const owned = usableOf(own.length > 0 ? own : served.owned)
  const others = declared.length > 0 ? declared.filter((each) => !isOwn(each)) : served.others
  const rest = usableOf(others)
  if (rest.length === 0) return pickCovered(owned, request, snapshot, caller)
  const isCovered = (model: Opened) => covers(request, snapshot, caller, model)
  const isHeld =
    own.length === 0 &&
    !owned.some(isCovered) &&
    served.held.some((each) => mayUse(caller, each) && isCovered(each))
  return isHeld ? undefined : pickCovered([...owned, ...rest], request, snapshot, caller)
}

const none: readonly Model[] = []

/** Whether the caller's subscription names the model, even if it cannot pay for it now. */
function covers(
  request: AccessRequest,
  snapshot: Snapshot,
  caller: Caller,
  model: Opened,
): boolean {
  const selected = select(snapshot, caller, subscriptionOf(request, caller), model.key)
  if (!('error' in selected)) return true
  return selected.error === 'model_unhealthy' || selected.error === 'multiple_subscriptions'
}

/**
 * The only one of several usable models, otherwise the first that the caller's subscription covers:
 * the owner's come first, and earlier ones. undefined: there is none.
 */
function pickCovered(
  models: readonly Model[],
  request: AccessRequest,
  snapshot: Snapshot,
  caller: Caller,
): Model | Denial | undefined {
  if (models.length < 2) return models[0]
  const covered = models.find((model) => covers(request, snapshot, caller, model))
  if (covered !== undefined) return covered
  const paths = models.map(({ key }) => `/${key}${request.target.operation}`).sort()
  return deny('model_ambiguous', { about: 'ambiguous', paths })
}

/** The same for an unknown model and for one that the caller may not use. */
export function denyModel(
  { target, bodyModel }: AccessRequest,
  about: 'model' | 'key_models' = 'model',
): Denial {
  const name = target.modelKey ?? bodyModel
  return deny('model_not_allowed', name === undefined ? undefined : { about, name })
}
