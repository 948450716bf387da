/** Holds back models whose cluster Envoy does not have yet. */

import type { Resource } from '../kinds/resources.ts'
import { keyOf } from '../kinds/resources.ts'
import type { Snapshot } from '../models/rules/snapshot.ts'

/**
 * The resources with these models (`<namespace>/<name>`) as in `shown`, or left out if they are not
 * there. Policies and subscriptions are the new ones, so that revoked access ends at once.
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
