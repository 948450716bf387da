/** The models that a request names, whether or not its caller may use them: for logs, metrics and administrators. */

import { publishedModels, readPublishedName } from '../models/rules/published-names.ts'
import type { Model, Snapshot } from '../models/rules/snapshot.ts'
import { mayUse } from './access.ts'
import type { AccessRequest } from './access-request.ts'
import { listedModels } from './name-lookup.ts'

type Naming = Pick<AccessRequest, 'caller' | 'target' | 'bodyModel' | 'requestedSubscription'>

/** The key of the only model that the request names; undefined: it names none, or several. */
export function namedModel(request: Naming, snapshot: Snapshot): string | undefined {
  const named = namedModels(request, snapshot)
  return named.length === 1 ? named[0]?.key : undefined
}

/** Those that no AccessPolicy opens to the caller. */
export function closedModels(request: Naming, snapshot: Snapshot): readonly Model[] {
  const { caller } = request
  if (caller === null) return []
  return namedModels(request, snapshot).filter((model) => !mayUse(caller, model))
}

/** More are not looked for. */
const outsideAtMost = 10

/** Those whose servers list the body's name, whether or not it is looked up there: not for who is outside of it. */
export function listingModels(
  { target, bodyModel }: Pick<Naming, 'target' | 'bodyModel'>,
  { modelsByName, servedNames }: Snapshot,
): readonly Model[] {
  if (target.modelKey !== undefined || bodyModel === undefined) return []
  if (readPublishedName(bodyModel) !== undefined || modelsByName.has(bodyModel)) return []
  return servedNames.listingAnywhere(bodyModel, outsideAtMost)
}

/** By the path; otherwise those that declare the body's name, or whose server lists it, as name-lookup.ts has it. */
function namedModels(
  { caller, target, bodyModel, requestedSubscription }: Naming,
  snapshot: Snapshot,
): readonly Model[] {
  const { models, modelsByName } = snapshot
  if (target.modelKey !== undefined) {
    const model = models.get(target.modelKey)
    return model === undefined ? [] : [model]
  }
  if (bodyModel === undefined) return []
  const published = readPublishedName(bodyModel)
  if (published !== undefined) return publishedModels(published, snapshot)
  const declared = modelsByName.get(bodyModel)
  if (declared !== undefined || caller === null) return declared ?? []
  return listedModels(bodyModel, { caller, requestedSubscription }, snapshot)
}
