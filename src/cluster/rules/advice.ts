/**
 * Advice about resources that are valid and in force but probably not what their author intended.
 */

import type { Refused } from '../../models/rules/refused.ts'
import { resourceKey, type Snapshot } from '../../models/rules/snapshot.ts'
import { sharedPriorities } from './conditions.ts'
import { missingFor } from './governance.ts'

/** With more individual users than this, a resource is slow to read and to compile. */
const manyUsers = 500

/** One sentence per finding, shown by `tollgate check`. */
export function adviceOn(snapshot: Snapshot, refused: readonly Refused[] = []): readonly string[] {
  const subjects = [
    ...[...snapshot.policies.values()].map(({ resource }) => ({
      resource,
      subjects: resource.subjects,
    })),
    ...[...snapshot.subscriptions.values()].map(({ resource }) => ({
      resource,
      subjects: resource.owner,
    })),
  ]
  const long = subjects
    .filter(({ subjects: { users } }) => users.length > manyUsers)
    .map(({ resource, subjects: { users } }) => {
      return `${resourceKey(resource)} names ${users.length} users; a group would do better`
    })
  const servers = [...snapshot.models.values()].flatMap(({ resource, basePath }) => {
    const key = resourceKey(resource)
    return [
      ...(basePath.endsWith('/v1')
        ? [`${key} has a backendUrl that ends in /v1; leave that out, as the gateway adds it`]
        : []),
      ...(resource.server.allPaths
        ? [`${key} opens all paths of its server; what is used on unknown ones is not counted`]
        : []),
    ]
  })
  return [...long, ...servers, ...uncallable(snapshot, refused), ...sharedPriorities(snapshot)]
}

/** Models that no key can call. */
function uncallable(snapshot: Snapshot, refused: readonly Refused[]): string[] {
  const meaning = { AccessPolicy: 'nobody may use it', Subscription: 'no key can be used for it' }
  return [...snapshot.models.values()].flatMap((model) =>
    missingFor(model, snapshot)
      // What would name it is broken, and among the problems.
      .filter(
        (kind) => !refused.some((each) => each.kind === kind && each.modelKeys.includes(model.key)),
      )
      .map((kind) => `no ${kind} names ${resourceKey(model.resource)}: ${meaning[kind]}`),
  )
}
