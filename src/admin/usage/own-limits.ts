/** The limits of a user or a key, with what their counters say. */

import {
  type CountedLimit,
  type Counter,
  counterOf,
  limitStates,
} from '../../ratelimit/rules/counter.ts'
import type { ExternalDeps } from '../deps.ts'
import { showState } from './limit-state.ts'

export interface OwnLimit {
  readonly subscription: string
  /** null: all together. */
  readonly model: string | null
  readonly limit: CountedLimit
}

/** What is shown of these limits of a user, each with its counter and whether anything is counted there. */
export async function readLimits(
  { readCounters, clock }: Pick<ExternalDeps, 'readCounters' | 'clock'>,
  user: string,
  own: readonly OwnLimit[],
) {
  const now = clock()
  const limits = own.map(({ limit }) => limit)
  const counters = limits.map((limit) => counterOf(limit, user))
  return limitStates(limits, await readCounters(counters, now), now).map((state, i) => {
    const { subscription, model } = own[i] as OwnLimit
    const shown = { subscription, model, ...showState(state) }
    return { counter: counters[i] as Counter, isUsed: state.used > 0, shown }
  })
}
