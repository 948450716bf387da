/** The hold that a granted request needs for its expected use. */

import { maxExactInt } from '../formats/exact.ts'
import { counterOf, countersOf } from '../ratelimit/rules/counter-cache.ts'
import { userInLines } from '../ratelimit/rules/counter-key.ts'
import type { Estimator, RequestSize } from '../ratelimit/rules/estimates/estimator.ts'
import type { Estimators } from '../ratelimit/rules/estimates/estimators.ts'
import {
  estimatorOwner,
  limitFactors,
  modelFactors,
} from '../ratelimit/rules/estimates/held-amounts.ts'
import { emptyHold, type HeldCounter, type Hold } from '../ratelimit/rules/hold.ts'
import { type CountedLimit, isRequestLimit } from '../ratelimit/rules/limit.ts'
import type { Estimate } from '../ratelimit/rules/unreported.ts'
import type { AccessRequest } from './access-request.ts'
import type { Grant } from './decision.ts'

/**
 * Operations whose body the gateway's script reads for its size and in which it can set a ceiling, and those without
 * output.
 */
const capped = /\/(chat\/completions|completions|responses|messages)$/
const outputless = /\/embeddings$/
const unpriced = modelFactors()
const unknownSize: RequestSize = { bytes: undefined, maxOutput: undefined, choices: undefined }

/** Whether the request holds tokens; an unmetered one needs no room. */
export function reservesTokens({ admission, metered }: Grant): boolean {
  return admission !== undefined && metered
}

/** Whether the gateway reads the size of the request in its body. */
export function isSizeReadFromBody({ target }: AccessRequest): boolean {
  return capped.test(target.operation)
}

/** The estimator for such requests. */
export function estimatorOf(estimators: Estimators, { subscription, caller, model }: Grant) {
  return estimators.of(estimatorOwner(subscription, userInLines(caller.user)), model.key)
}

/** `id`: of the hold; without one, nothing is held. */
export function holdOf(
  grant: Grant,
  request: AccessRequest,
  estimator: Estimator,
  now: number,
  id: string | undefined,
): Hold {
  const { admission, caller, pool, limits, countsRequests } = grant
  const { watched = [], factors = unpriced } = grant
  const counters: HeldCounter[] = []
  const requestCounters = []
  for (const [i, counter] of countersOf(limits, caller.user, pool).entries()) {
    const limit = limits[i] as CountedLimit
    const own = limitFactors(limit.kind, factors)
    if (countsRequests && isRequestLimit(limit)) requestCounters.push(counter)
    else counters.push(own === undefined ? counter : { ...counter, factors: own })
  }
  for (const limit of watched)
    requestCounters.push({ ...counterOf(limit, caller.user, pool), limit: maxExactInt })
  if (admission === undefined || !grant.metered) {
    return { ...emptyHold, id, admittedAt: now, counters, requestCounters }
  }
  const { overshoot, charge } = admission
  const { maxTokens, honoursMaxTokens = true } = grant.model.resource.output ?? {}
  const hasOutput = mayHaveOutput(request)
  const size = request.size ?? unknownSize
  const { bytes, maxOutput, choices, problem } = size
  const expected = estimator.expect(size, hasOutput ? maxTokens : 0, honoursMaxTokens)
  const estimate = estimateOf(expected.input, hasOutput, estimator)
  const canLimitOutput = honoursMaxTokens && isSizeReadFromBody(request)
  return {
    bytes,
    maxOutput,
    choices,
    problem,
    id,
    admittedAt: now,
    counters,
    requestCounters,
    expected,
    estimate,
    overshoot,
    charge,
    canLimitOutput,
  }
}

type Limits = readonly CountedLimit[]

const none: Limits = []

/** Limits on concurrency that refuse nothing: only the holds know what is in progress. */
export function observedConcurrency(observed = none, ofKey = none): Limits {
  const isWatched = ({ kind }: CountedLimit) => kind === 'concurrency'
  if (!observed.some(isWatched) && !ofKey.some(isWatched)) return none
  return [...observed, ...ofKey].filter(isWatched)
}

/** The minimum charge of the request, if its model reports less. */
function estimateOf(input: number, hasOutput: boolean, { bytesPerToken }: Estimator): Estimate {
  return { input, bytesPerToken: hasOutput ? bytesPerToken : 0 }
}

function mayHaveOutput({ target }: AccessRequest): boolean {
  return !outputless.test(target.operation)
}

/** Adds to the grant the minimum charge if its model reports less, unless it has one, or nothing is charged. */
export function withEstimate(grant: Grant, request: AccessRequest, estimators: Estimators): Grant {
  if (!grant.metered || grant.isUnread || grant.held?.estimate !== undefined) return grant
  const { bytes, maxOutput, choices } = request.size ?? unknownSize
  const estimator = estimatorOf(estimators, grant)
  const estimate = estimateOf(estimator.expectInput(bytes), mayHaveOutput(request), estimator)
  const ceiling = Number.POSITIVE_INFINITY
  const held = grant.held
    ? { ...grant.held, estimate }
    : { bytes, maxOutput, choices, admittedAt: 0, ceiling, estimate }
  return { ...grant, held }
}
