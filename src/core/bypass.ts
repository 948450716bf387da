/** Models that can be reached past us: by an HTTPRoute on a Gateway other than GATEWAY_INTERNAL. */

import type { Condition } from './conditions.ts'
import { showFirst } from './lists.ts'
import type { ModelRef } from './resources.ts'
import type { Snapshot } from './snapshot.ts'

/** A message need not list more. */
const mostShown = 10

/** The condition of a model that has an HTTPRoute, where the setting is there. */
export function bypassConditions({ routing }: ModelRef): readonly Condition[] {
  const bypasses = routing?.bypasses
  if (bypasses === undefined) return []
  const type = 'Bypass'
  if (bypasses.length === 0) {
    return [{ type, status: 'False', reason: 'InternalGatewayOnly', message: '' }]
  }
  const ways = bypasses.map(
    ({ route, gateway }) => `the HTTPRoute ${route} on the Gateway ${gateway}`,
  )
  const message = `reached past Tollgate by ${showFirst(ways, mostShown)}`
  return [{ type, status: 'True', reason: 'OtherGateway', message }]
}

/** A sentence for each model that can be reached past us. */
export function bypassedModels({ models }: Pick<Snapshot, 'models'>): readonly string[] {
  return [...models.values()].flatMap(({ key, resource }) =>
    bypassConditions(resource)
      .filter(({ status }) => status === 'True')
      .map(({ message }) => `the model ${key} can be ${message}`),
  )
}
