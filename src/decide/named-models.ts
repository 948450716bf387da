/** The models that a request names, whether or not its caller may use them: for logs, metrics and administrators. */

import { publishedModels, readPublishedName } from '../models/rules/published-names.ts'
import type { Model, Snapshot } from '../models/rules/snapshot.ts'
import { mayUse } from './access.ts'
import type { AccessRequest } from './access-request.ts'

type Naming = Pick<AccessRequest, 'target' | 'bodyModel'>

/** The key of the only model that the request names; undefined: it names none, or several. */
export function namedModel(request: Naming, snapshot: Snapshot): string | undefined {
  const named = namedModels(request, snapshot)
  return named.length === 1 ? named[0]?.key : undefined
}

/** Those that no AccessPolicy opens to the caller. */
export function closedModels(
  { caller, ...request }: Naming & Pick<AccessRequest, 'caller'>,
  snapshot: Snapshot,
): readonly Model[] {
  if (caller === null) return []
  return namedModels(request, snapshot).filter((model) => !mayUse(caller, model))
}

/** By the path; otherwise those that declare the body's name, and those whose server lists it. */
function namedModels({ target, bodyModel }: Naming, snapshot: Snapshot): readonly Model[] {
  const { models, modelsByName, servedNames } = snapshot
  if (target.modelKey !== undefined) {
    const model = models.get(target.modelKey)
    return model === undefined ? [] : [model]
  }
  if (bodyModel === undefined) return []
  const published = readPublishedName(bodyModel)
  if (published !== undefined) return publishedModels(published, snapshot)
  const declared = modelsByName.get(bodyModel) ?? []
  const served = servedNames.get(bodyModel)
  if (served === undefined) return declared
  return [...new Set([...declared, ...served.owned, ...served.others])]
}
