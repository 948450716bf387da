/** Decides a hypothetical request by the steps of Check, and by its limits as they are now or will be; counts nothing. */

import type { AccessRequest } from '../../decide/access-request.ts'
import { type StepName, traceDecision } from '../../decide/decide.ts'
import type { Decision, Denial, Grant } from '../../decide/decision.ts'
import { type Explanation, explain } from '../../decide/explain.ts'
import { enforceLimits } from '../../decide/steps/limits.ts'
import { parseTarget } from '../../operations/request-target.ts'
import { type CounterState, counterStateAt } from '../../ratelimit/rules/counter.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Asker } from './asker.ts'
import type { Hypothetical } from './explain-question.ts'

interface Decided {
  readonly decision: Decision
  readonly explained: () => Explanation
}

export function createDryRun(deps: ExternalDeps) {
  const { snapshot, readCounters, limits, paths, clock, tokensOpenInference, increases } = deps

  /** `explained` takes time in proportion to the caller's subscriptions and the model's policies. */
  async function decide(asker: Asker, asked: Hypothetical, at: number): Promise<Decided> {
    const { caller, ended, isStandIn } = asker
    const { path, address, ...request } = asked
    if (caller === null || ended !== undefined) {
      const detail = { about: 'credential', reason: ended } as const
      return refuse({ allowed: false, code: 'credential_invalid', detail }, ['credential'])
    }
    const target = parseTarget(path)
    if (target === undefined) {
      return refuse({ allowed: false, code: 'not_found' }, ['credential', 'path'])
    }
    const tokensOpen = isStandIn || tokensOpenInference
    const access = { ...request, caller, target, tokensOpen, address }
    const known = snapshot()
    const traced = traceDecision(access, known, paths)
    const { decision } = traced
    const decided = decision.allowed ? await enforce(decision, access, at) : decision
    return { decision: decided, explained: () => explain(access, traced, decided, known) }
  }

  /**
   * Stores know windows that have begun, so they are asked only about now. At a later time, what runs now has ended.
   */
  async function enforce(granted: Grant, request: AccessRequest, at: number): Promise<Decision> {
    if (at <= clock()) return limits(granted, request, at)
    const grant = increases.raiseOf(granted, at)
    const counters = grant.limits.map((limit) => counterOf(limit, grant.caller.user, grant.pool))
    const states = await readCounters(counters, clock())
    const later = counters.map((each, i) => counterStateAt(each, states[i] as CounterState, at))
    return enforceLimits(grant, later, at)
  }

  return decide
}

function refuse(decision: Denial, steps: readonly StepName[]): Decided {
  const nothing = { closed: [], outside: [], policies: [], subscriptions: [] }
  return { decision, explained: () => ({ decision, steps, model: undefined, ...nothing }) }
}
