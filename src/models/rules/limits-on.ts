/** Which limits hold for a model of a Subscription, and whose they are. */

import type { CountedLimit } from '../../ratelimit/rules/counter.ts'
import type { CompiledSubscription } from './snapshot.ts'

export interface LimitOn {
  readonly limit: CountedLimit
  /** Whether it refuses; else it is only counted and shown. */
  readonly isEnforced: boolean
}

/** Those that refuse come first. */
export function* limitsOn(
  { limits, observed }: Pick<CompiledSubscription, 'limits' | 'observed'>,
  model: string,
): Generator<LimitOn> {
  for (const limit of limits.get(model) ?? []) yield { limit, isEnforced: true }
  for (const limit of observed.get(model) ?? []) yield { limit, isEnforced: false }
}

/** What a limit is about. */
export interface About {
  /** null: it is one of a ModelRef or of the Tenant. */
  readonly subscription: string | null
  /** null: several together. */
  readonly model: string | null
  /** Which these are; undefined: all. */
  readonly models?: readonly string[] | undefined
}

/** What a limit of a model, or of a key, is about; `model`: null is all of the Subscription. */
export function aboutOf(
  { origin, limitName, models }: CountedLimit,
  model: string | null,
  { name }: Pick<CompiledSubscription, 'name'>,
): About {
  if (origin === 'model') return { subscription: null, model }
  const subscription = origin === 'tenant' ? null : name
  if (limitName === undefined) return { subscription, model }
  const named = models?.map(({ namespace, name }) => `${namespace}/${name}`)
  const [first = null, ...others] = named ?? []
  return others.length > 0
    ? { subscription, model: null, models: named }
    : { subscription, model: first }
}
