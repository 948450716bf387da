/** What an answer reported → the counters it belongs to. */

import { type Counter, counterOf } from './counter.ts'
import type { Snapshot } from './snapshot.ts'

/** One finished answer of a model, as the gateway tells of it. */
export interface Usage {
  readonly user: string
  /** Bare name. */
  readonly subscription: string
  /** `<namespace>/<name>`. */
  readonly model: string
  /** HTTP status of the answer; 0 when there was none. */
  readonly status: number
  /** `usage.total_tokens` as it came, of whatever type; undefined when the answer had none. */
  readonly totalTokens: unknown
}

/**
 * Tokens to count: of a 2xx answer whose `usage.total_tokens` is a whole number of 0 or more.
 * undefined: the answer counts nothing, either rightly (no success) or because its model
 * reported nothing usable.
 */
export function countedTokens({ status, totalTokens }: Usage): number | undefined {
  if (!(status >= 200 && status <= 299)) return undefined
  return Number.isSafeInteger(totalTokens) && (totalTokens as number) >= 0
    ? (totalTokens as number)
    : undefined
}

/** The counters of this usage under the limits in force now; none once the limits are gone. */
export function countersOf(usage: Usage, snapshot: Snapshot): readonly Counter[] {
  const limits = snapshot.subscriptions.get(usage.subscription)?.limits.get(usage.model) ?? []
  return limits.map((limit) => counterOf(limit, usage.user))
}
