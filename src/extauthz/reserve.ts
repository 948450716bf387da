/** Holds room for a request before it is allowed. */

import type { Estimators } from '../core/admission/estimators.ts'
import { counterOf } from '../core/decision/counter.ts'
import { type Decision, enforceLimits, type Reserve } from '../core/decision/decide.ts'
import { ServiceError } from '../core/decision/errors.ts'
import { decideReserved } from '../core/decision/reserve.ts'
import type { CounterStore } from '../store/counters.ts'
import type { HoldAnswer, HoldStore } from '../store/holds.ts'

export interface ReserveDeps {
  readonly holds: HoldStore
  readonly counters: Pick<CounterStore, 'read'>
  readonly estimators: Estimators
  /** When the store of holds does not respond: the counters decide alone, or nobody is admitted. */
  readonly onLoss: 'allow' | 'deny'
  /** Only decides, and holds nothing. */
  readonly isDry?: boolean
}

/** The function that `decide` calls for subscriptions that reserve. */
export function createReserve(deps: ReserveDeps): Reserve {
  const { holds, counters, estimators, onLoss, isDry = false } = deps

  return function reserve(grant, request, now) {
    const { admission, caller, limits, subscription, model } = grant
    const counted = limits.map((limit) => counterOf(limit, caller.user))
    const estimator = estimators.of(subscription, model.key)
    const { bytes, maxOutput, choices } = request.size?.() ?? unknownSize
    const size = { bytes, maxOutput, choices, admittedAt: now }
    const { operation } = request.target
    const expected = estimator.expect(size, outputless.test(operation) ? 0 : undefined)
    const id = isDry ? undefined : request.requestId?.()

    const decided = (answer: HoldAnswer): Decision =>
      decideReserved(grant, answer, size, estimator.defaultMs, expected)

    async function decideAlone(): Promise<Decision> {
      if (onLoss === 'deny') throw new ServiceError('counters_unavailable')
      return enforceLimits(grant, await counters.read(counted, now), now)
    }

    const { overshoot, charge } = admission as NonNullable<typeof admission>
    const canCap = capped.test(operation)
    const asked = { id, counters: counted, expected, overshoot, charge, canCap }
    const answer = holds.hold(asked, now)
    return answer instanceof Promise ? answer.then(decided, decideAlone) : decided(answer)
  }
}

/** The operations whose body the gateway's script can give a ceiling, and those without output. */
const capped = /\/(chat\/completions|completions|responses|messages)$/
const outputless = /\/embeddings$/
const unknownSize = { bytes: undefined, maxOutput: undefined, choices: undefined }
