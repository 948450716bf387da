/**
 * Enforces limits with holds: what requests in progress will use takes room, too. A refusal says whether
 * the limit is used up, or only held by requests that will end soon.
 */

import type { Expected } from '../admission/estimator.ts'
import { type CounterState, limitStates } from './counter.ts'
import type { Decision, Grant, HeldRoom } from './decide.ts'

/** What a store of holds has answered. */
export interface Reserved {
  readonly outcome: 'held' | 'busy' | 'spent'
  readonly cap: number
  readonly windows: readonly (CounterState | undefined)[]
}

const minWaitMs = 1_000
const maxWaitMs = 30_000

/**
 * The grant with the states of its limits and its room, or a refusal. `defaultMs`: how long such a
 * request usually runs.
 */
export function decideReserved(
  grant: Grant,
  { outcome, cap, windows }: Reserved,
  size: Omit<HeldRoom, 'cap'>,
  defaultMs: number,
  expected: Expected,
): Decision {
  const { admittedAt: now } = size
  const states = limitStates(grant.limits, windows, now)
  if (outcome === 'held') {
    // A ceiling that is not below the client's own changes nothing.
    const own = (size.maxOutput ?? Number.POSITIVE_INFINITY) * (size.choices ?? 1)
    const ceiling = cap < own ? cap : Number.POSITIVE_INFINITY
    const { bytes, maxOutput, choices } = size
    const held = { bytes, maxOutput, choices, admittedAt: now, cap: ceiling }
    return { ...grant, states, held }
  }
  const refusal = { allowed: false, code: 'token_limit_exceeded', states, grant } as const
  if (outcome === 'spent') {
    const spent = states.filter(({ limit, used }) => used >= limit.limit)
    return { ...refusal, retryAt: Math.max(...spent.map(({ resetsAt }) => resetsAt)) }
  }
  // With several in progress the next one ends after a part of the usual time.
  const held = Math.max(...states.map((state) => state.held ?? 0))
  const count = Math.max(1, held / (expected.input + expected.output))
  const waitMs = Math.min(maxWaitMs, Math.max(minWaitMs, defaultMs / count))
  const resetsAt = Math.min(...states.map((state) => state.resetsAt))
  return { ...refusal, isBusy: true, retryAt: Math.min(now + waitMs, Math.max(now, resetsAt)) }
}
