/** What follows for holds when a response has ended: its window, its release, and what it teaches. */

import { type Estimators, ownerOf } from '../core/admission/estimators.ts'
import { stillOpen } from '../core/decision/admitted-windows.ts'
import { anyCounterOf, type Counter, isTaken } from '../core/decision/counter.ts'
import type { Snapshot } from '../core/decision/snapshot.ts'
import { estimateOutput } from '../core/decision/unreported.ts'
import { sentOf, tokensByType, type Usage } from '../core/decision/usage.ts'
import type { HoldStore } from '../store/holds.ts'

export interface HeldDeps {
  readonly snapshot: () => Snapshot
  readonly holds: HoldStore
  readonly estimators: Estimators
}

/** A request that has ended; without `held`, only the journal has told it. */
export type EndedRequest = Pick<Usage, 'user' | 'subscription' | 'model' | 'response' | 'held'>

export interface Held {
  /** Those of the counters whose window admitted the request, if that is where it is charged. */
  charged(usage: Usage, counters: readonly Counter[], now: number): readonly Counter[]
  /** Keeps the hold of a request that still runs, and lets it grow with what was sent. */
  follow(usage: Usage, now: number): void
  /** Call it once the response is in the counters, or counts nothing. */
  release(ended: EndedRequest): void
  /** `tokens`: as reported; undefined: nothing was. */
  learn(usage: Usage, tokens: number | undefined): void
}

/** What a request without an estimate is expected to use: it holds none. */
const noTokens = { mean: 0, variance: 0 }

export function createHeld({ snapshot, holds, estimators }: HeldDeps): Held {
  const rulesOf = ({ subscription }: EndedRequest) =>
    snapshot().subscriptions.get(subscription)?.admission

  function mayHold(ended: EndedRequest): boolean {
    const limits = snapshot().subscriptions.get(ended.subscription)?.limits.get(ended.model)
    return rulesOf(ended) !== undefined || limits?.some(isTaken) === true
  }

  return {
    charged(usage, all, now) {
      const windows = usage.held?.windows
      if (windows === undefined || rulesOf(usage)?.charge !== 'admission') return all
      return stillOpen(windows, all, now)
    },
    follow(usage, now) {
      const { held, estimate, reported, user, subscription, model } = usage
      if (!held?.admittedAt) return
      const counters = [anyCounterOf(subscription, model, user)]
      if (estimate === undefined) return holds.renew(counters, held.id, noTokens, now)
      const sent = estimateOutput(estimate, sentOf(usage))
      const seen = Math.max(tokensByType(reported).output, sent)
      const { cap = Number.POSITIVE_INFINITY } = held
      const more = estimators.of(ownerOf(subscription, user), model).expectMore(held, seen, cap)
      holds.renew(counters, held.id, more, now)
    },
    release(ended) {
      const { user, subscription, model, held, response } = ended
      const id = held?.id ?? response?.id
      if (id === undefined || !(held?.admittedAt || mayHold(ended))) return
      holds.release([anyCounterOf(subscription, model, user)], id)
    },
    learn(usage, tokens) {
      const { held, reported, model, subscription, user } = usage
      const { textBytes } = sentOf(usage)
      if (held === undefined || tokens === undefined) return
      const { input, output } = tokensByType(reported)
      const { bytes, maxOutput, choices, cap, isBroken, tookMs } = held
      estimators.of(ownerOf(subscription, user), model).learn({
        ...{ bytes, maxOutput, choices, input, output, tookMs, textBytes },
        isCut: isBroken || (cap !== undefined && output >= cap),
      })
    },
  }
}
