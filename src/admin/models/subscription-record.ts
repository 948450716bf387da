/** A subscription in responses (contract, 3.8), without its owners. */

import { mayUseModel } from '../../decide/access.ts'
import type { Person } from '../../identity/rules/caller.ts'
import type { Prices } from '../../kinds/limits.ts'
import type { BilledModel, Limit } from '../../kinds/resources.ts'
import { displayOf } from '../../models/rules/display-names.ts'
import type { CompiledSubscription, Model, Snapshot } from '../../models/rules/snapshot.ts'
import {
  boolean,
  integer,
  labelsSchema,
  object,
  objects,
  optional,
  string,
} from '../http/schema.ts'
import { withoutEmpty } from '../http/without-empty.ts'

const price = (description: string) => optional(string(description, { examples: ['0.00002'] }))

export const billingRateSchema = object('BillingRate', {
  per_token: price('Price of a token without its own price.'),
  per_input_token: price('If absent, per_token; likewise for output.'),
  per_output_token: price('Reasoning included.'),
  per_cached_token: price('Price of input read from a cache; if absent, as other input.'),
  per_cache_write_token: price('Price of input written to a cache; if absent, as other input.'),
  per_request: price('Price of a response, in addition to its tokens; if absent, nothing.'),
})

export function toBillingRateJson(prices: Prices): Record<string, string | undefined> {
  return {
    per_token: prices.perToken,
    per_input_token: prices.perInputToken,
    per_output_token: prices.perOutputToken,
    per_cached_token: prices.perCachedToken,
    per_cache_write_token: prices.perCacheWriteToken,
    per_request: prices.perRequest,
  }
}

/** The models that a subscription pays for, with their limits. */
export const modelRefsSchema = objects('SubscriptionModel', {
  name: { type: 'string', examples: ['sim-small'] },
  namespace: optional({ type: 'string', examples: ['llm'] }),
  token_rate_limits: optional({
    description: 'All of them apply, to each user separately.',
    ...objects('TokenRateLimit', {
      limit: integer('Tokens.', { examples: [100_000] }),
      window: string('Seconds, minutes or hours.', { examples: ['1m'] }),
    }),
  }),
  request_rate_limits: optional({
    description: 'Each applies to every user separately; absent if there are none.',
    ...objects('RequestRateLimit', {
      limit: integer('Requests.', { examples: [60] }),
      window: string('Seconds, minutes or hours.', { examples: ['1m'] }),
    }),
  }),
  concurrency: optional(
    integer("The maximum of a user's requests in progress; absent without a limit."),
  ),
  billing_rate: optional(billingRateSchema),
  display_name: optional(string('Absent if empty.')),
  description: optional(string('Absent if empty.')),
  source: optional(
    string('Whether the model runs here or at a provider; absent if the model does not exist.', {
      enum: ['internal', 'external'],
    }),
  ),
  accessible: optional(boolean('Whether an AccessPolicy opens the model to you; only in lists.')),
})

export const subscriptionSchema = object('Subscription', {
  subscription_id_header: string('The name, as in X-MaaS-Subscription.', {
    examples: ['team-a-premium'],
  }),
  subscription_description: string('The description, else the display name, else the name.', {
    examples: ['Team A premium'],
  }),
  display_name: optional({ type: 'string', examples: ['Team A premium'] }),
  priority: integer('A new key that names no subscription gets the one with the highest.', {
    minimum: 0,
    examples: [20],
  }),
  model_refs: modelRefsSchema,
  organization_id: optional(string('Absent if empty.')),
  cost_center: optional(string('Absent if empty.')),
  labels: optional(labelsSchema),
})

/** As the caller sees it. */
export function toSubscriptionJson(
  subscription: CompiledSubscription,
  { models }: Pick<Snapshot, 'models'>,
  caller: Person,
): Record<string, unknown> {
  const { name, priority, resource, modelKeys } = subscription
  const { displayName, description } = displayOf(resource.metadata)
  const { organizationId, costCenter, labels } = resource.attribution
  return {
    subscription_id_header: name,
    subscription_description: description || displayName || name,
    priority,
    model_refs: toModelRefsJson(resource.modelRefs).map((shown, index) => ({
      ...shown,
      ...aboutModel(models.get(modelKeys[index] as string), caller),
    })),
    ...withoutEmpty({
      display_name: displayName,
      organization_id: organizationId,
      cost_center: costCenter,
    }),
    ...(Object.keys(labels).length > 0 && { labels }),
  }
}

function aboutModel(model: Model | undefined, caller: Person): Record<string, unknown> {
  if (model === undefined) return { accessible: false }
  const { metadata, backend } = model.resource
  const { displayName, description } = displayOf(metadata)
  return {
    ...withoutEmpty({ display_name: displayName, description }),
    source: backend.kind === 'ExternalModel' ? 'external' : 'internal',
    accessible: mayUseModel(caller, model),
  }
}

export function toModelRefsJson(
  models: readonly BilledModel[],
): readonly Record<string, unknown>[] {
  return models.map((model) => {
    const { name, namespace, requestRateLimits, concurrency, billingRate } = model
    return {
      name,
      namespace,
      token_rate_limits: toRatesJson(model.tokenRateLimits),
      ...(requestRateLimits.length > 0 && { request_rate_limits: toRatesJson(requestRateLimits) }),
      ...(concurrency !== undefined && { concurrency }),
      ...(billingRate !== undefined && { billing_rate: toBillingRateJson(billingRate) }),
    }
  })
}

function toRatesJson(limits: readonly Limit[]) {
  return limits.map(({ limit, window }) => ({ limit, window }))
}
