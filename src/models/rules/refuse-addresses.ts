/** Removes the backend of models whose address is refused, so that no cluster is made for it. */

import { memoizeLast } from '../../formats/memoize.ts'
import type { ModelRef, Resource } from '../../kinds/resources.ts'

/** Returns the problem of a backend's address, if any. */
export type CheckAddress = (backendUrl: string) => string | undefined

const refused = memoizeLast<ModelRef, ModelRef>()

/**
 * The resources, with refused ModelRefs replaced, one per step. For the same problem a ModelRef
 * yields the same object as before.
 */
export function* refuseAddresses(
  resources: readonly Resource[],
  check: CheckAddress,
): Generator<void, readonly Resource[]> {
  const checked = [...resources]
  let isSame = true
  for (const [index, resource] of resources.entries()) {
    if (resource.kind !== 'ModelRef' || resource.backendUrl === undefined) continue
    const addressProblem = check(resource.backendUrl)
    yield
    if (addressProblem === undefined) continue
    checked[index] = refused(resource, [addressProblem], () => {
      return { ...resource, backendUrl: undefined, addressProblem }
    })
    isSame = false
  }
  return isSame ? resources : checked
}
