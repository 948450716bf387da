/** `GET /v1/limits`: what is left of the caller's limits. */

import type { FromSchema } from 'json-schema-to-ts'
import { mayCallModel, poolOfCaller } from '../../decide/access.ts'
import { accessibleSubscriptions } from '../../decide/subscription-selection.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import type { CompiledSubscription, Snapshot } from '../../models/rules/snapshot.ts'
import { showsFigures } from '../../ratelimit/rules/limit-headers.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { boolean, objects, responses } from '../http/schema.ts'
import {
  currencyOf,
  currencySchema,
  type LimitSelection,
  limitFields,
  limitFilters,
  limitsIn,
  limitsOfKey,
  maxLimits,
  type OwnLimit,
  readShownLimits,
  sortLimits,
} from './limit-state.ts'

const parameters = {
  type: 'object',
  additionalProperties: false,
  properties: limitFilters,
} as const

const schema = {
  operationId: 'listLimits',
  summary: 'Read what is left of your limits',
  description:
    "The limits of the models that you may use, in each of your subscriptions; with a key, in the key's, and the key's own. A limit on several models is one entry. The call counts nothing.",
  tags: ['Usage'],
  querystring: parameters,
  response: responses(
    'Ordered by subscription, model, kind and length of the window; then limits of models and of the installation, and last the limits of the key itself.',
    [400],
    'LimitList',
    {
      object: { type: 'string', const: 'list' },
      data: objects('CallerLimit', {
        ...limitFields,
        scope: {
          ...limitFields.scope,
          description: 'Who shares the counter: all your keys (user), this key, or several users.',
        },
        resetsAt: {
          ...limitFields.resetsAt,
          description: 'When the window ends, used or not; null for concurrency.',
        },
      }),
      currency: currencySchema,
      has_more: boolean(
        `Whether there are more than these ${maxLimits.toLocaleString('en')}: name a subscription or a model.`,
      ),
    },
  ),
} as const

/** The response. */
export type LimitList = FromSchema<(typeof schema.response)[200]>

/** Adds the route. */
export function listLimitsOfCaller(app: Api, deps: ExternalDeps): void {
  app.get('/v1/limits', { schema }, async (request) => {
    const caller = callerOf(request)
    const own = limitsOfCaller(caller, request.query, deps.snapshot())
    const limits = await readShownLimits(deps, own.slice(0, maxLimits), showsFigures)
    const data = limits.map(({ shown }) => shown)
    return {
      object: 'list',
      data,
      ...currencyOf(data, deps.billingCurrency),
      has_more: own.length > limits.length,
    }
  })
}

/** The limits that the caller may see, in order. */
export function limitsOfCaller(
  caller: Caller,
  only: LimitSelection,
  snapshot: Snapshot,
): readonly OwnLimit[] {
  const open = accessibleSubscriptions(snapshot, caller).filter(
    ({ name }) =>
      (caller.by === 'token' || name === caller.subscription) &&
      name === (only.subscription ?? name),
  )
  const mayUse = (key: string) => {
    const model = snapshot.models.get(key)
    return model !== undefined && mayCallModel(caller, model)
  }
  const { user, groups } = caller
  const caps = capsOf(caller)
  const ofKey = open.flatMap((subscription) =>
    limitsOfKey(caps, subscription, { user, mayUse }, only.model),
  )
  const poolIn = ({ resource }: CompiledSubscription) => poolOfCaller(resource, groups)
  return sortLimits([...limitsIn(open, only, { user, poolIn, mayUse }), ...ofKey])
}
