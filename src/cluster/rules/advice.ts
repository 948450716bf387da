/** Advice about resources that are valid and in force but probably not what their author intended. */

import { isCalendar } from '../../kinds/limit-schemas.ts'
import type { RefusedResource } from '../../models/rules/refused-resources.ts'
import { resourceKey, type Snapshot } from '../../models/rules/snapshot.ts'
import { sharedPriorities } from './conditions.ts'
import { missingKindsFor } from './governance.ts'

/** With more individual users than this, a resource is slow to read and to compile. */
const manyUsers = 500

/** Ends of a backend's path that the gateway adds, too: `/v1`, or an operation, as providers' pages write it. */
const addedByGateway = [
  '/v1',
  '/v1/chat/completions',
  '/v1/messages',
  '/v1/responses',
  '/v1/models',
]

/** One sentence per finding, shown by `tollgate check`. */
export function resourceAdvice(
  snapshot: Snapshot,
  refused: readonly RefusedResource[] = [],
): readonly string[] {
  const { policies, subscriptions } = snapshot
  const long = [
    ...[...policies.values()].map(({ resource }) => ({ resource, ...resource.subjects })),
    ...[...subscriptions.values()].map(({ resource }) => ({ resource, ...resource.owner })),
  ]
    .filter(({ users }) => users.length > manyUsers)
    .map(({ resource, users }) => {
      return `${resourceKey(resource)} names ${users.length} users; use a group instead`
    })
  const servers = [...snapshot.models.values()].flatMap(({ resource, basePath }) => {
    const key = resourceKey(resource)
    return [
      ...addedByGateway
        .filter((end) => basePath.endsWith(end))
        .map(
          (added) =>
            `${key} has a backendUrl that ends in ${added}; leave ${added} out, because the gateway adds it`,
        ),
      ...(resource.server.allPaths
        ? [`${key} opens all paths of its server; tokens on unknown paths are not counted`]
        : []),
    ]
  })
  return [
    ...long,
    ...servers,
    ...[...subscriptions.values()].flatMap(({ resource }) =>
      (resource.repeated ?? []).map(
        (key) =>
          `${resourceKey(resource)} names the model ${key} again; only its first entry is in force`,
      ),
    ),
    ...[...subscriptions.values()]
      .filter(({ resource: { owner } }) => owner.users.length + owner.groups.length === 0)
      .map(
        ({ resource }) =>
          `${resourceKey(resource)} has no owner: nobody can create keys for it, or use those that exist`,
      ),
    ...unsaid(snapshot),
    ...uncallable(snapshot, refused),
    ...sharedPriorities(snapshot),
  ]
}

/** Defaults of limits by name that are often not what was meant. */
function unsaid({ subscriptions, models, tenant }: Snapshot): string[] {
  const all = [...subscriptions.values()]
  const limited = [
    ...all.map(({ resource, calendar }) => ({ resource, calendar })),
    ...[...models.values()].map(({ resource }) => ({ resource, calendar: tenant?.calendar })),
    ...(tenant ? [{ resource: tenant, calendar: tenant.calendar }] : []),
  ]
  return [
    ...all.flatMap(({ resource }) =>
      (resource.ofEach ?? []).map(
        (name) =>
          `${resourceKey(resource)}: each user has a limit ${name} of their own; per: group or per: subscription shares it`,
      ),
    ),
    ...limited.flatMap(({ resource, calendar }) => {
      const named = resource.limits.filter(({ window }) => isCalendar(window))
      if (named.length === 0 || calendar?.timeZone !== undefined) return []
      const where = resource.kind === 'Subscription' ? '' : ' of the Tenant'
      return `${resourceKey(resource)} counts by the calendar of UTC (${named.map(({ name }) => name).join(', ')}); spec.calendar.timeZone${where} sets another time zone`
    }),
  ]
}

/** Models that no key can call. */
function uncallable(snapshot: Snapshot, refused: readonly RefusedResource[]): string[] {
  const meaning = { AccessPolicy: 'nobody may use it', Subscription: 'no key can be used for it' }
  return [...snapshot.models.values()].flatMap((model) =>
    missingKindsFor(model, snapshot)
      // If a broken resource names the model, that is among the problems.
      .filter(
        (kind) => !refused.some((each) => each.kind === kind && each.modelKeys.includes(model.key)),
      )
      .map((kind) => `no ${kind} names ${resourceKey(model.resource)}: ${meaning[kind]}`),
  )
}
