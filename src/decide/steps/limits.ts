/**
 * Step `limits`: decides by the states of the counters, or by the answer of a store of holds. The only step that needs
 * more than the request and the resources; the caller reads counters or asks the store of holds (extauthz/check-limits.ts).
 */

import type { CounterState } from '../../ratelimit/rules/counter.ts'
import { maxOutputAlone, scarcestLimit } from '../../ratelimit/rules/estimates/admit.ts'
import type { Hold, HoldResult } from '../../ratelimit/rules/hold.ts'
import {
  isRequestLimit,
  type LimitState,
  lastSpentLimit,
  limitStates,
} from '../../ratelimit/rules/limit.ts'
import { type Decision, type Denial, deny, type Grant, limitCodes } from '../decision.ts'

/**
 * The grant with the states of its limits, or a refusal if one is reached. `counters` are the
 * states of `grant.limits`, in the same order.
 */
export function enforceLimits(
  grant: Grant,
  counters: readonly CounterState[],
  now: number,
): Decision {
  const states = limitStates(grant.limits, counters, now)
  const last = lastSpentLimit(states)
  if (last === undefined) return { ...grant, states }
  return refusalBy({ states, grant }, last, last.resetsAt)
}

function refusalBy(all: Pick<Denial, 'states' | 'grant'>, refusing: LimitState, retryAt: number) {
  const code = limitCodes[refusing.limit.kind]
  return { allowed: false, code, retryAt, refusing, ...all } as const
}

/**
 * The decision before the body has been read: spent limits refuse, everything else is decided afterwards. `limits` are
 * those on tokens, and `counters` theirs.
 */
export function enforceBeforeBody(
  grant: Grant,
  limits: Grant['limits'],
  counters: readonly CounterState[],
  now: number,
): Decision {
  const decision = enforceLimits({ ...grant, limits }, counters, now)
  return decision.allowed ? { ...decision, isUnread: true } : { ...decision, grant }
}

/** The refusal of a request that does not fit into its limits even while they are unused. */
export function refuseOversizedRequest(hold: Hold): Denial | undefined {
  const problem = hold.problem ?? describeOversized(hold)
  return problem === undefined ? undefined : deny('invalid_body', { about: 'body', problem })
}

/** Names the fields that may be the reason. */
function describeOversized(hold: Hold): string | undefined {
  const { counters, expected, overshoot, canLimitOutput, choices = 1 } = hold
  const { least, isSeveral } = expected
  if (!canLimitOutput && !isSeveral) return undefined
  const most = maxOutputAlone(counters, expected, overshoot)
  if (least <= most) return undefined
  if (!canLimitOutput) {
    return `its ${choices} answers may use ${least} tokens of output, which nothing bounds, because the gateway cannot set a maximum at this model; at most ${Math.max(0, most)} fit into the limits; ask for fewer (n, best_of, prompt)`
  }
  if (least <= choices) {
    return `its ${choices} answers are more than the ${most} tokens that fit into the limits; ask for fewer (n, best_of, prompt)`
  }
  const each = choices > 1 ? `its ${choices} answers need` : 'it needs'
  return (
    `${each} ${least} tokens of output at least, by thinking.budget_tokens or min_tokens, and at most ` +
    `${most} fit into the limits; lower that field${choices > 1 ? ', or ask for fewer answers' : ''}`
  )
}

const minWaitMs = 1_000
const maxWaitMs = 30_000

/**
 * The grant with the states of its limits and its hold, or a refusal by a limit that is spent, or only held by
 * requests that will end soon. `usualMs`: how long such a request usually runs.
 */
export function enforceHold(
  grant: Grant,
  hold: Hold,
  { outcome, ceiling: allowed, windows }: HoldResult,
  usualMs: number,
): Decision {
  const { admittedAt: now, expected } = hold
  const states = limitStates(grant.limits, inOrder(grant, windows), now)
  if (outcome === 'held') {
    const { bytes, maxOutput, choices, estimate } = hold
    // A ceiling that is not below the client's own, or the model's, changes nothing.
    const ceiling = allowed < expected.worst ? allowed : Number.POSITIVE_INFINITY
    const held = { bytes, maxOutput, choices, admittedAt: now, ceiling, estimate }
    return { ...grant, states, held }
  }
  const refuse = refusalBy.bind(undefined, { states, grant })
  const reached = states.filter(({ limit, used }) => used >= limit.limit)
  if (outcome === 'spent') {
    const spent = reached.filter(({ limit }) => limit.kind !== 'concurrency')
    const last = spent.reduce((a, b) => (b.resetsAt > a.resetsAt ? b : a))
    return refuse(last, last.resetsAt)
  }
  const full = reached.find(({ limit }) => limit.kind === 'concurrency')
  if (full !== undefined) {
    const nextMs = Math.min(maxWaitMs, Math.max(minWaitMs, usualMs / Number(full.used)))
    return { ...refuse(full, now + nextMs), isBusy: true }
  }
  // The last units are held by requests that another limit may still refuse.
  const reachedRate = reached.find(({ limit }) => limit.kind === 'requests')
  if (reachedRate !== undefined) return { ...refuse(reachedRate, now + minWaitMs), isBusy: true }
  const ofUse = states.filter(({ limit }) => !isRequestLimit(limit))
  const capacities = ofUse.map(({ limit: { limit }, used, held = 0 }, i) => {
    return { limit, used, held, factors: hold.counters[i]?.factors }
  })
  const { index, isShort } = scarcestLimit(capacities, expected, hold.overshoot)
  const scarcest = ofUse[index] as LimitState
  if (isShort) return { ...refuse(scarcest, scarcest.resetsAt), needed: expected.least }
  // With several in progress the next one ends after a part of the usual time.
  const tokens = ofUse.filter(({ limit }) => limit.kind === 'tokens')
  const held = Math.max(0, ...tokens.map((state) => state.held ?? 0))
  const count = Math.max(1, held / (expected.input + expected.output))
  const waitMs = Math.min(maxWaitMs, Math.max(minWaitMs, usualMs / count))
  const resetsAt = Math.min(...ofUse.map((state) => state.resetsAt))
  const retryAt = Math.min(now + waitMs, Math.max(now, resetsAt))
  return { ...refuse(scarcest, retryAt), isBusy: true }
}

/** Windows of tokens and then of requests, in the order of the limits. */
function inOrder(
  { countsRequests, limits }: Grant,
  windows: HoldResult['windows'],
): HoldResult['windows'] {
  if (!countsRequests) return windows
  let token = 0
  let other = limits.filter((limit) => !isRequestLimit(limit)).length
  return limits.map((limit) => windows[isRequestLimit(limit) ? other++ : token++] as CounterState)
}
