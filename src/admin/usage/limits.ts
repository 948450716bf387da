/** `GET /v1/limits`: what is left of the caller's limits. */

import type { FromSchema } from 'json-schema-to-ts'
import { mayCall } from '../../decide/access.ts'
import { accessibleSubscriptions } from '../../decide/selection.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { callerOf } from '../http/authenticate.ts'
import { answers, boolean, objects } from '../http/schema.ts'
import {
  filters,
  limitFields,
  limitsIn,
  maxLimits,
  type OwnLimit,
  readLimits,
} from './limit-state.ts'

const parameters = { type: 'object', additionalProperties: false, properties: filters } as const

const schema = {
  operationId: 'listLimits',
  summary: 'Read what is left of your limits',
  description:
    "The limits of the models that you may use, in each of your subscriptions; with a key, in the key's, and the key's own. Asking counts nothing.",
  tags: ['Usage'],
  querystring: parameters,
  response: answers(
    'Ordered by subscription, model, kind and length of the window; limits of the key itself come last.',
    [400],
    'LimitList',
    {
      object: { type: 'string', const: 'list' },
      data: objects('CallerLimit', {
        ...limitFields,
        scope: {
          ...limitFields.scope,
          description: 'Whose use is counted: yours with all keys, or that of this key.',
        },
        resetsAt: {
          ...limitFields.resetsAt,
          description: 'When the window ends, used or not; null: of concurrency.',
        },
      }),
      has_more: boolean(
        `Whether there are more than these ${maxLimits.toLocaleString('en')}: name a subscription or a model.`,
      ),
    },
  ),
} as const

type Parameters = FromSchema<typeof parameters>

/** The answer. */
export type LimitList = FromSchema<(typeof schema.response)[200]>

/** Adds the route. */
export function listLimitsOfCaller(app: Api, deps: ExternalDeps): void {
  app.get('/v1/limits', { schema }, async (request) => {
    const caller = callerOf(request)
    const own = limitsOf(caller, request.query, deps.snapshot())
    const limits = await readLimits(deps, caller.user, own.slice(0, maxLimits))
    return {
      object: 'list',
      data: limits.map(({ shown }) => shown),
      has_more: own.length > limits.length,
    }
  })
}

function limitsOf(caller: Caller, only: Parameters, snapshot: Snapshot): readonly OwnLimit[] {
  const open = accessibleSubscriptions(snapshot, caller).filter(
    ({ name }) =>
      (caller.by === 'token' || name === caller.subscription) &&
      name === (only.subscription ?? name),
  )
  const ofKey = open.flatMap(({ name: subscription, calendar }) => {
    const limits = capsOf(caller)?.limitsOn?.(undefined, calendar).limits ?? []
    return limits.map((limit) => ({ subscription, model: null, limit }))
  })
  const mayUse = (key: string) => {
    const model = snapshot.models.get(key)
    return model !== undefined && mayCall(caller, model)
  }
  return [...limitsIn(open, only, mayUse), ...ofKey]
}
