/**
 * Applies lines to holds: releases the holds of ended requests, renews the holds of running ones, and learns estimates.
 */

import type { JournalLine } from '../journal/journal-line.ts'
import type { Snapshot } from '../models/rules/snapshot.ts'
import type { HoldStore } from '../ratelimit/holds.ts'
import { chargedCounter, parseChargedLimit } from '../ratelimit/rules/charged-limits.ts'
import { type Counter, counterOfAnyLimit } from '../ratelimit/rules/counter.ts'
import type { Estimators } from '../ratelimit/rules/estimates/estimators.ts'
import { estimatorOwner } from '../ratelimit/rules/estimates/held-amounts.ts'
import { holdLeaseMs } from '../ratelimit/rules/hold.ts'
import { isRequestLimit } from '../ratelimit/rules/limit.ts'
import { estimateOutput } from '../ratelimit/rules/unreported.ts'
import { requestOwnerOf } from './rules/line-charges.ts'
import { sentPartOf, tokensByType, type Usage } from './rules/usage.ts'

interface HoldFollowerDeps {
  readonly snapshot: () => Snapshot
  readonly holds: Pick<HoldStore, 'release' | 'renew'>
  readonly estimators: Estimators
}

export type HoldFollower = ReturnType<typeof createHoldFollower>

/** The expected use of a request without an estimate, which holds no tokens. */
const noTokens = { mean: 0, variance: 0 }

export function createHoldFollower({ snapshot, holds, estimators }: HoldFollowerDeps) {
  /** Whether the request may have a hold; limits on requests or concurrency suffice for one. */
  function mayHold({ subscription, model, held }: Usage): boolean {
    if (held?.admittedAt) return true
    const under = snapshot().subscriptions.get(subscription)
    return under?.admission !== undefined || under?.limits.get(model)?.some(isRequestLimit) === true
  }

  /** One counter of each subject for which the request may have a hold. */
  function countersOf(usage: Usage): readonly Counter[] {
    const { user, subscription, model, limits = [], estimate } = usage
    const counters = [counterOfAnyLimit(subscription, model, user)]
    for (const text of limits) {
      const limit = parseChargedLimit(text)
      if (limit === undefined || (estimate === undefined && !isRequestLimit(limit))) continue
      counters.push(chargedCounter(limit, requestOwnerOf(usage)))
    }
    return counters
  }

  return {
    /**
     * Renews the hold of a running request, and lets it grow with the response. `now`: by the earliest of the clocks by
     * which the request may have begun.
     */
    follow(usage: JournalLine['usage'], now: number) {
      const { held, estimate, reported, user, subscription, model, response } = usage
      // A line that is replayed after a restart has no bearing on the present.
      if (!held?.admittedAt || now - response.endedAt >= holdLeaseMs) return
      const counters = countersOf(usage)
      if (estimate === undefined) return holds.renew(counters, held.id, noTokens)
      const sent = estimateOutput(estimate, sentPartOf(usage))
      const seen = Math.max(tokensByType(reported).output, sent)
      const { ceiling = Number.POSITIVE_INFINITY } = held
      const more = estimators
        .of(estimatorOwner(subscription, user), model)
        .expectMore(held, seen, ceiling)
      holds.renew(counters, held.id, more)
    },
    /** Call it once the response is in the counters, or counts nothing. */
    release(ended: JournalLine['usage']): void {
      if (mayHold(ended)) holds.release(countersOf(ended), ended.response.id)
    },
    /** `tokens`: as reported, or undefined if nothing was. */
    learn(usage: Usage, tokens: number | undefined): void {
      const { held, reported, model, subscription, user } = usage
      const { textBytes } = sentPartOf(usage)
      if (held === undefined || tokens === undefined) return
      const { input, output: written } = tokensByType(reported)
      // What a total has beside its parts is output, as in costs: Gemini's reasoning.
      const output = input > 0 ? Math.max(written, tokens - input) : written
      const { bytes, maxOutput, choices, ceiling, isBroken, tookMs } = held
      estimators.of(estimatorOwner(subscription, user), model).learn({
        bytes,
        maxOutput,
        choices,
        input,
        output,
        tookMs,
        textBytes,
        isCut: isBroken || (ceiling !== undefined && output >= ceiling),
      })
    },
  }
}
