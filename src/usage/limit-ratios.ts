/** The used share of each limit that several callers have in common, for metrics. */

import {
  resourceOfCounter,
  type SharedLimit,
  sharedLimits,
  sharerOfCounter,
} from '../models/rules/shared-limits.ts'
import type { Snapshot } from '../models/rules/snapshot.ts'
import { type ReadStatesDeps, readLimitStates } from '../ratelimit/increases/read-limit-states.ts'
import { inSlices } from '../runtime/slices.ts'

interface LimitRatiosDeps extends ReadStatesDeps {
  readonly snapshot: () => Pick<Snapshot, 'subscriptions'>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

/** Maximum number of limits, since a scrape reads a counter for each; further limits are left out. */
const maxRatios = 1_000

/** The ratios that can be read, with the labels of the metric. */
export function createLimitRatios({ snapshot, clock, ...deps }: LimitRatiosDeps) {
  return async () => {
    const shared = (await inSlices(sharedLimits(snapshot()))).slice(0, maxRatios)
    const states = await readLimitStates(deps, shared, clock()).catch(() => [])
    return states.map(({ limit, used }, i) => {
      const { counter } = shared[i] as SharedLimit
      const { limitName = '', kind } = limit
      const whom = sharerOfCounter(limit, counter) ?? ''
      return {
        attributes: { resource: resourceOfCounter(counter), limit: limitName, kind, whom },
        value: Number(used) / Number(limit.limit),
      }
    })
  }
}
