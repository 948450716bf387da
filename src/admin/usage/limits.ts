/** `GET /v1/limits`: what is left of the caller's limits. */

import type { FastifyInstance } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import { mayCall } from '../../decide/access.ts'
import { accessibleSubscriptions } from '../../decide/selection.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { capsOf } from '../../keys/rules/compiled-caps.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { ExternalDeps } from '../deps.ts'
import { callerOf } from '../http/authenticate.ts'
import { answers, boolean, objects } from '../http/schema.ts'
import { byKindAndWindow, filters, limitFields } from './limit-state.ts'
import { type OwnLimit, readLimits } from './own-limits.ts'

/** The most limits in a response: reading a counter costs a shared store a key each. */
const maxLimits = 1_000

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
export function listLimitsOfCaller(app: FastifyInstance, deps: ExternalDeps): void {
  app.get<{ Querystring: Parameters }>('/v1/limits', { schema }, async (request) => {
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

/** One more than are shown is enough. */
function limitsOf(caller: Caller, only: Parameters, snapshot: Snapshot): readonly OwnLimit[] {
  const own: OwnLimit[] = []
  for (const { name, limits } of accessibleSubscriptions(snapshot, caller)) {
    if (caller.by === 'key' && name !== caller.subscription) continue
    if (only.subscription !== undefined && name !== only.subscription) continue
    const models = [...limits.keys()].filter(
      (key) => only.model === undefined || key === only.model,
    )
    for (const key of models.sort()) {
      const model = snapshot.models.get(key)
      if (model === undefined || !mayCall(caller, model)) continue
      const inOrder = [...(limits.get(key) ?? [])].sort(byKindAndWindow)
      own.push(...inOrder.map((limit) => ({ subscription: name, model: key, limit })))
      if (own.length > maxLimits) return own
    }
    for (const limit of capsOf(caller)?.limits ?? []) {
      own.push({ subscription: name, model: null, limit })
    }
  }
  return own
}
