/** The models that the caller may use, with the subscriptions that pay for each. */

import type { Model, Subscription } from '../api.ts'
import { type Limit, limitsIn } from '../parts/limits.tsx'
import type { Session } from '../session.tsx'

export interface Offer {
  readonly model: Model
  /** By priority, the highest first. */
  readonly subscriptions: readonly Subscription[]
}

export async function readOffers(call: Session['call']): Promise<readonly Offer[]> {
  const [{ data }, all] = await Promise.all([
    call<{ readonly data: readonly Model[] }>('GET', '/v1/models'),
    call<readonly Subscription[]>('GET', '/v1/subscriptions'),
  ])
  const ordered = [...all].sort((a, b) => b.priority - a.priority)
  return data.map((model) => {
    const names = new Set(model.subscriptions.map(({ name }) => name))
    return {
      model,
      subscriptions: ordered.filter((each) => names.has(each.subscription_id_header)),
    }
  })
}

/** The limits of a model under a subscription. */
export function limitsOf({ model_refs }: Subscription, { owned_by }: Model): readonly Limit[] {
  return limitsIn(
    model_refs.find(({ namespace, name }) => `${namespace}/${name}` === owned_by) ?? {},
  )
}
