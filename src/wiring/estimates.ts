/** Shares the estimators' averages among processes through the database. */

import { shareLearned } from '../ratelimit/estimates/sharing.ts'
import type { Estimators } from '../ratelimit/rules/estimates/estimators.ts'
import { timedStop } from '../runtime/stops.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import type { Resources } from './resources.ts'

type Snapshot = ReturnType<Resources['snapshot']>

/** Shares them until the service stops, while anything may be estimated. */
export function startSharing(
  { config, onFault, stops }: Context,
  { pool }: Database,
  estimators: Estimators,
  { snapshot }: Pick<Resources, 'snapshot'>,
): void {
  const isNeeded = () => config.chargeUnreported || mayEstimate(snapshot())
  const sharing = shareLearned({ sql: pool, estimators, isNeeded, onFault })
  stops.push(timedStop('what was learned', sharing.stop))
}

/**
 * Whether requests may be estimated: to reserve, or under limits on cost, which only models with prices have. Keys may
 * have such limits of their own, too.
 */
export function mayEstimate({ subscriptions }: Snapshot): boolean {
  for (const { admission, terms } of subscriptions.values()) {
    if (admission) return true
    for (const { tariff } of terms.values()) if (tariff?.isPriced) return true
  }
  return false
}
