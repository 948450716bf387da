/** Models whose cluster Envoy does not have yet, kept as they were. */

import type { Resource } from '../core/resources.ts'
import { keyOf } from '../core/resources.ts'
import type { Snapshot } from '../core/snapshot.ts'

/**
 * The resources with these models (`<namespace>/<name>`) as `shown` has them; what it does not
 * have is left out. Policies and subscriptions are the new ones, so that no access outlives its end.
 */
export function holdModels(
  resources: readonly Resource[],
  held: Pick<ReadonlySet<string>, 'has'>,
  shown: Snapshot | undefined,
): readonly Resource[] {
  return resources.flatMap((resource) => {
    const key = keyOf(resource)
    if (resource.kind !== 'ModelRef' || !held.has(key)) return resource
    return shown?.models.get(key)?.resource ?? []
  })
}
