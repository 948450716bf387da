/** Limits that several callers share, with their counters: one for each possible pool. */

import { getOrAdd } from '../../formats/lists.ts'
import { keyOfModel } from '../../kinds/resources.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import { namedUsersPool, parseCounterKey, poolOfGroup } from '../../ratelimit/rules/counter-key.ts'
import type { CountedLimit } from '../../ratelimit/rules/limit.ts'
import type { CompiledSubscription, Snapshot } from './snapshot.ts'

/** One counter, with the first Subscription and model that it may be for. */
export interface SharedLimit extends ModelLimit {
  readonly counter: Counter
  readonly subscription: CompiledSubscription
  readonly model: string
}

/** Each counter once, in no order. `only`: of this Subscription or model. Yields for slices. */
export function* sharedLimits(
  { subscriptions }: Pick<Snapshot, 'subscriptions'>,
  only: { readonly subscription?: string | undefined; readonly model?: string | undefined } = {},
): Generator<undefined, SharedLimit[]> {
  const found = new Map<string, SharedLimit>()
  for (const subscription of subscriptions.values()) {
    if (subscription.name !== (only.subscription ?? subscription.name)) continue
    // A limit on several models has the same counters for each, and there may be thousands.
    const seen = new Set<string>()
    for (const model of only.model === undefined ? subscription.limits.keys() : [only.model]) {
      for (const on of limitsOnModel(subscription, model)) {
        if (!isShared(on.limit) || seen.has(on.limit.keyPrefix)) continue
        seen.add(on.limit.keyPrefix)
        for (const pool of on.limit.scope === 'group' ? poolsOfSubscription(subscription) : ['']) {
          const counter = counterOf(on.limit, '', pool)
          getOrAdd(found, counter.key, () => ({ ...on, counter, subscription, model }))
        }
      }
      yield
    }
  }
  return [...found.values()]
}

function isShared({ scope }: Pick<CountedLimit, 'scope'>): boolean {
  return scope !== 'user' && scope !== 'key'
}

/** The pools of a Subscription, as counters name them. */
export function poolsOfSubscription({ resource }: CompiledSubscription): readonly string[] {
  const { users, groups } = resource.owner
  return [...groups.map(poolOfGroup), ...(users.length > 0 ? [''] : [])]
}

/** The group, organization or Subscription that shares the counter; undefined if one user or key has it, or all share it. */
export function sharerOfCounter(
  limit: Pick<CountedLimit, 'scope'>,
  { key }: Pick<Counter, 'key'>,
): string | undefined {
  if (!isShared(limit)) return undefined
  return parseCounterKey(key).user || (limit.scope === 'group' ? namedUsersPool : undefined)
}

/**
 * The resource that has the limit, as keys of counters begin: a Subscription, `ModelRef/<namespace>/<name>`, or
 * `Tenant`.
 */
export function resourceOfCounter({ key }: Pick<Counter, 'key'>): string {
  return parseCounterKey(key).subscription
}

export interface ModelLimit {
  readonly limit: CountedLimit
  /** Whether it refuses; else it is only counted and shown. */
  readonly isEnforced: boolean
}

/** Limits that refuse come first. */
export function* limitsOnModel(
  { limits, terms }: Pick<CompiledSubscription, 'limits' | 'terms'>,
  model: string,
): Generator<ModelLimit> {
  for (const limit of limits.get(model) ?? []) yield { limit, isEnforced: true }
  for (const limit of terms.get(model)?.observed ?? []) yield { limit, isEnforced: false }
}

/** The Subscription and the models that a limit is about. */
export interface LimitSubject {
  /** Null for a limit of a ModelRef or of the Tenant. */
  readonly subscription: string | null
  /** Null for several or all models. */
  readonly model: string | null
  /** The models, if there are several. */
  readonly models?: readonly string[] | undefined
}

/** The subscription and models of a limit of a model, or of a key; `model` is null for all of the Subscription. */
export function subscriptionAndModels(
  { origin, limitName, models }: CountedLimit,
  model: string | null,
  { name }: Pick<CompiledSubscription, 'name'>,
): LimitSubject {
  if (origin === 'model') return { subscription: null, model }
  const subscription = origin === 'tenant' ? null : name
  if (limitName === undefined) return { subscription, model }
  const named = models?.map(keyOfModel)
  const [first = null, ...others] = named ?? []
  return others.length > 0
    ? { subscription, model: null, models: named }
    : { subscription, model: first }
}
