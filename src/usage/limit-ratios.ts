/** How much of each limit that several callers share is used, as metrics show it. */

import {
  resourceOf,
  type SharedLimit,
  sharedLimits,
  whomOf,
} from '../models/rules/shared-limits.ts'
import type { Snapshot } from '../models/rules/snapshot.ts'
import type { ResettableCounters } from '../ratelimit/counters.ts'
import type { ActiveIncreases } from '../ratelimit/increases/active-increases.ts'
import { limitStates } from '../ratelimit/rules/counter.ts'
import { inSlices } from '../runtime/slices.ts'

export interface LimitRatiosDeps {
  readonly snapshot: () => Pick<Snapshot, 'subscriptions'>
  readonly readCounters: ResettableCounters['readFresh']
  /** None is raised by default. */
  readonly raise?: ActiveIncreases['raise']
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

/** Those of further limits are left out: each is a counter that a scrape reads. */
const maxRatios = 1_000

/** Those that can be read, with the labels of the metric. */
export function createLimitRatios({ snapshot, readCounters, raise, clock }: LimitRatiosDeps) {
  return async () => {
    const shared = (await inSlices(sharedLimits(snapshot()))).slice(0, maxRatios)
    const now = clock()
    const limits = shared.map(({ limit, counter }) => raise?.(limit, counter.key, now) ?? limit)
    const counters = shared.map(({ counter }) => counter)
    const read = await readCounters(counters, now).catch(() => undefined)
    if (read === undefined) return []
    return limitStates(limits, read, now).map(({ limit, used }, i) => {
      const { counter } = shared[i] as SharedLimit
      const { limitName = '', kind } = limit
      const whom = whomOf(limit, counter) ?? ''
      return {
        attributes: { resource: resourceOf(counter), limit: limitName, kind, whom },
        value: Number(used) / Number(limit.limit),
      }
    })
  }
}
