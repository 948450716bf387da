/** The models that the caller may use, with the subscriptions that pay for each. */

import type { Model, Subscription } from '../api.ts'
import { nameOf } from '../keys/limit-fields.tsx'
import { type Limit, limitsIn } from '../parts/limits.tsx'
import type { Session } from '../session.tsx'

export interface Offer {
  readonly model: Model
  /** In the order in which the service chooses. */
  readonly subscriptions: readonly Subscription[]
}

export async function readOffers(call: Session['call']): Promise<readonly Offer[]> {
  const [{ data }, all] = await Promise.all([
    call<{ readonly data: readonly Model[] }>('GET', '/v1/models'),
    call<readonly Subscription[]>('GET', '/v1/subscriptions'),
  ])
  const ordered = all.toSorted(byPreference)
  return data.map((model) => {
    const names = new Set(model.subscriptions.map(({ name }) => name))
    return {
      model,
      subscriptions: ordered.filter((each) => names.has(each.subscription_id_header)),
    }
  })
}

/** The service's own order: the highest priority, then the largest limit, then the name. */
export function byPreference(a: Subscription, b: Subscription): number {
  const [one, other] = [a.subscription_id_header, b.subscription_id_header]
  return b.priority - a.priority || maxLimit(b) - maxLimit(a) || (one < other ? -1 : 1)
}

function maxLimit({ model_refs }: Subscription): number {
  const limits = model_refs.flatMap(({ token_rate_limits = [] }) => token_rate_limits)
  return Math.max(0, ...limits.map(({ limit }) => limit))
}

/** The limits of a model under a subscription. */
export function limitsOf({ model_refs }: Subscription, { owned_by }: Model): readonly Limit[] {
  return limitsIn(model_refs.find((model) => nameOf(model) === owned_by) ?? {})
}
