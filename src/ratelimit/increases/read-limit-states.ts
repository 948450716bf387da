/** Reads the states of limits, with their increases, for display and not for decisions on requests. */

import type { ResettableCounters } from '../counters.ts'
import type { Counter } from '../rules/counter.ts'
import { type CountedLimit, type LimitState, limitStates } from '../rules/limit.ts'
import type { ActiveIncreases } from './active-increases.ts'

export interface ReadStatesDeps {
  readonly readCounters: ResettableCounters['readFresh']
  /** By default no limit is increased. */
  readonly raise?: ActiveIncreases['raise'] | undefined
}

/**
 * The state of each limit, for one of its counters, in the given order. `now`: milliseconds since the epoch. Rejects
 * like `readFresh`.
 */
export async function readLimitStates(
  { readCounters, raise }: ReadStatesDeps,
  asked: readonly { readonly limit: CountedLimit; readonly counter: Counter }[],
  now: number,
): Promise<readonly LimitState[]> {
  const limits = asked.map(({ limit, counter }) => raise?.(limit, counter.key, now) ?? limit)
  const counters = asked.map(({ counter }) => counter)
  return limitStates(limits, await readCounters(counters, now), now)
}
