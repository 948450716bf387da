/** Models that can be reached without the gateway: by an HTTPRoute on a Gateway other than GATEWAY_INTERNAL. */

import { joinFirst } from '../../formats/lists.ts'
import type { ModelRef } from '../../kinds/resources.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { Condition } from './condition.ts'

/** A message lists at most this many. */
const maxShown = 10

/** The condition of a model that has an HTTPRoute, if the setting is set. */
export function bypassConditions({ routing }: ModelRef): readonly Condition[] {
  const bypasses = routing?.bypasses
  if (bypasses === undefined) return []
  const type = 'Bypass'
  if (bypasses.length === 0) {
    return [{ type, status: 'False', reason: 'InternalGatewayOnly', message: '' }]
  }
  const ways = bypasses
    .slice(0, maxShown)
    .map(({ route, gateway }) => `the HTTPRoute ${route} on the Gateway ${gateway}`)
  const message = `reached past Tollgate by ${joinFirst(ways, maxShown, bypasses.length)}`
  return [{ type, status: 'True', reason: 'OtherGateway', message }]
}

/** One sentence for each model that can be reached without the gateway. */
export function bypassedModels({ models }: Pick<Snapshot, 'models'>): readonly string[] {
  return [...models.values()].flatMap(({ key, resource }) =>
    bypassConditions(resource)
      .filter(({ status }) => status === 'True')
      .map(({ message }) => `the model ${key} can be ${message}`),
  )
}
