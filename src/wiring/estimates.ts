/** Shares the estimators' averages among processes through the database. */

import { shareLearned } from '../ratelimit/estimates/sharing.ts'
import type { Estimators } from '../ratelimit/rules/estimates/estimators.ts'
import { timedStop } from '../runtime/stops.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import type { Resources } from './resources.ts'

/** Shares it until the service stops, while anything is estimated. */
export function startSharing(
  { config, onFault, stops }: Context,
  { pool }: Database,
  estimators: Estimators,
  { snapshot }: Pick<Resources, 'snapshot'>,
): void {
  function isNeeded(): boolean {
    if (config.chargeUnreported) return true
    for (const { admission } of snapshot().subscriptions.values()) if (admission) return true
    return false
  }
  const sharing = shareLearned({ sql: pool, estimators, isNeeded, onFault })
  stops.push(timedStop('what was learned', sharing.stop))
}
