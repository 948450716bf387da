/**
 * Enforces limits with holds: what requests in progress will use takes room, too, and so do the requests
 * themselves, if they are counted. A refusal says which limit is used up, or only held by requests that
 * will end soon.
 */

import { type CounterState, type LimitState, limitStates } from '../ratelimit/rules/counter.ts'
import type { LimitKind } from '../ratelimit/rules/counter-key.ts'
import type { Expected } from '../ratelimit/rules/estimates/estimator.ts'
import type { Decision, Denial, Grant, HeldRoom } from './decide.ts'

/** What a store of holds has answered. */
export interface Reserved {
  readonly outcome: 'held' | 'busy' | 'spent'
  readonly cap: number
  readonly windows: readonly CounterState[]
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
    // A ceiling that is not below the client's own, or the model's, changes nothing.
    const ceiling = cap < expected.worst ? cap : Number.POSITIVE_INFINITY
    const { bytes, maxOutput, choices, estimate } = size
    const held = { bytes, maxOutput, choices, admittedAt: now, cap: ceiling, estimate }
    return { ...grant, states, held }
  }
  const refuse = (kind: LimitKind, retryAt: number): Denial => {
    return { allowed: false, code: codes[kind], retryAt, states, grant }
  }
  const reached = states.filter(({ limit, used }) => used >= limit.limit)
  if (outcome === 'spent') {
    const spent = reached.filter(({ limit }) => limit.kind !== 'concurrency')
    const last = spent.reduce((a, b) => (b.resetsAt > a.resetsAt ? b : a))
    return refuse(last.limit.kind, last.resetsAt)
  }
  const full = reached.find(({ limit }) => limit.kind === 'concurrency')
  if (full !== undefined) {
    const nextMs = Math.min(maxWaitMs, Math.max(minWaitMs, defaultMs / full.used))
    return { ...refuse('concurrency', now + nextMs), isBusy: true }
  }
  const tokens = states.filter(({ limit }) => limit.kind === 'tokens')
  const held = Math.max(...states.map((state) => state.held ?? 0))
  // Nothing will end: what is left is less than it needs at least, of the windows that are used most.
  if (held === 0) {
    const least = ({ limit, used }: LimitState) => limit.limit - used
    const fullest = tokens.reduce((a, b) => (least(b) < least(a) ? b : a))
    return { ...refuse('tokens', fullest.resetsAt), needed: expected.least }
  }
  // With several in progress the next one ends after a part of the usual time.
  const count = Math.max(1, held / (expected.input + expected.output))
  const waitMs = Math.min(maxWaitMs, Math.max(minWaitMs, defaultMs / count))
  const resetsAt = Math.min(...tokens.map((state) => state.resetsAt))
  return { ...refuse('tokens', Math.min(now + waitMs, Math.max(now, resetsAt))), isBusy: true }
}

const codes = {
  tokens: 'token_limit_exceeded',
  requests: 'request_limit_exceeded',
  concurrency: 'concurrency_limit_exceeded',
} as const
