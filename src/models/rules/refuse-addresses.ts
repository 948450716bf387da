/** Removes the backend of models whose address is refused, so that no cluster is made for it. */

import type { ModelRef, Resource } from '../../kinds/resources.ts'

/** Returns the problem of a backend's address, if any. */
export type CheckAddress = (backendUrl: string) => string | undefined

const refused = new WeakMap<ModelRef, ModelRef>()

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
    const before = refused.get(resource)
    const made =
      before?.addressProblem === addressProblem
        ? before
        : { ...resource, backendUrl: undefined, addressProblem }
    refused.set(resource, made)
    checked[index] = made
    isSame = false
  }
  return isSame ? resources : checked
}
