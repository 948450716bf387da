/** The stated bounds of limits that reserve: by how much requests in progress may pass them. */

import type { Snapshot } from '../../models/rules/snapshot.ts'
import { limitBounds } from './limit-bounds.ts'

export interface OvershootBound {
  readonly subscription: string
  /** `<namespace>/<name>`. */
  readonly model: string
  readonly window: string
  readonly limit: number
  /** Tokens beyond the limit; Infinity: the model's server ignores maxima, so there is no bound. */
  readonly tokens: number
}

/** One for each limit of each Subscription that reserves, in order of their names; those by name are in limit-bounds.ts. */
export function* overshootBounds({ subscriptions, models }: Snapshot): Generator<OvershootBound> {
  for (const { name: subscription, admission, limits } of subscriptions.values()) {
    if (admission === undefined) continue
    const { overshoot } = admission
    for (const [model, counted] of limits) {
      const isBound = models.get(model)?.resource.output?.honoursMaxTokens !== false
      for (const { kind, window, limit, limitName } of counted) {
        if (kind !== 'tokens' || limitName !== undefined || typeof limit !== 'number') continue
        const tokens = isBound ? Math.floor(limit * overshoot) : Number.POSITIVE_INFINITY
        yield { subscription, model, window, limit, tokens }
      }
    }
  }
}

/** The largest bound of all limits on tokens, with or without a name; 0 if no Subscription reserves. */
export function maxOvershoot(snapshot: Snapshot): number {
  let largest = 0
  for (const { tokens } of overshootBounds(snapshot)) largest = Math.max(largest, tokens)
  for (const { of, beyond = 0 } of limitBounds(snapshot)) {
    if (of !== 'cost') largest = Math.max(largest, Number(beyond))
  }
  return largest
}
