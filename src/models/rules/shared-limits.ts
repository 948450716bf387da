/** Limits on the use of several callers together, each with its counters: one for each pool that there can be. */

import { type CountedLimit, type Counter, counterOf } from '../../ratelimit/rules/counter.ts'
import { readCounterKey } from '../../ratelimit/rules/counter-key.ts'
import { groupInLines } from '../../ratelimit/rules/line-user.ts'
import type { CompiledSubscription, Snapshot } from './snapshot.ts'

/** Whose use a counter of a limit by name adds up. */
export interface Pool {
  /** What has the limit: a Subscription by its name, `ModelRef/<namespace>/<name>`, or `Tenant`. */
  readonly resource: string
  /** A group, `users` for the callers whom a Subscription names, an organization, a Subscription; empty: all of the resource. */
  readonly whom: string
}

export interface SharedLimit extends Pool {
  readonly limit: CountedLimit
  readonly counter: Counter
  /** Whether it refuses. */
  readonly isEnforced: boolean
}

export function poolOf({ scope }: CountedLimit, { key }: Counter): Pool {
  const { subscription: resource, user: whom } = readCounterKey(key)
  return { resource, whom: whom === '' && scope === 'group' ? 'users' : whom }
}

const known = new WeakMap<Snapshot['subscriptions'], readonly SharedLimit[]>()

/** All of them, ordered by Subscription; the same array for the same Subscriptions. */
export function sharedLimits({ subscriptions }: Pick<Snapshot, 'subscriptions'>) {
  let found = known.get(subscriptions)
  if (found === undefined) {
    const byKey = new Map<string, SharedLimit>()
    for (const each of subscriptions.values()) addPools(each, byKey)
    found = [...byKey.values()]
    known.set(subscriptions, found)
  }
  return found
}

/** A limit of a model or the Tenant is in each Subscription, with the same counter. */
function addPools(subscription: CompiledSubscription, byKey: Map<string, SharedLimit>): void {
  const { groups, users, limits, observed } = subscription
  const pools = [...[...groups].map(groupInLines), ...(users.size > 0 ? [''] : [])]
  for (const [of, isEnforced] of [
    [limits, true],
    [observed, false],
  ] as const) {
    for (const limit of [...of.values()].flat()) {
      if (limit.scope === 'user' || limit.scope === 'key') continue
      for (const pool of limit.scope === 'group' ? pools : ['']) {
        const counter = counterOf(limit, '', pool)
        byKey.set(counter.key, { limit, counter, isEnforced, ...poolOf(limit, counter) })
      }
    }
  }
}
