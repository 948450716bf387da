/** `GET /v1/limits`: what is left of the caller's limits. */

import type { FastifyInstance } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import { mayCall } from '../../core/decision/access.ts'
import type { Caller } from '../../core/decision/caller.ts'
import { type CountedLimit, counterOf, limitStates } from '../../core/decision/counter.ts'
import { capsOf } from '../../core/decision/key-caps.ts'
import { accessibleSubscriptions } from '../../core/decision/selection.ts'
import type { Snapshot } from '../../core/decision/snapshot.ts'
import type { ExternalDeps } from '../deps.ts'
import { callerOf } from '../http/authenticate.ts'
import { boolean, object, objects, string } from '../http/schema.ts'
import { refusals, timestamp } from '../http/schemas.ts'
import { byKindAndWindow, endOf, kindSchema, windowSchema } from './limit-state.ts'

/** The most limits in a response: reading a counter costs a shared store a key each. */
const maxLimits = 1_000

const name = { type: 'string', minLength: 1, maxLength: 1_024 } as const
const count = { type: 'integer', minimum: 0 } as const

const parameters = {
  type: 'object',
  additionalProperties: false,
  properties: {
    subscription: { ...name, description: 'Only of this subscription.' },
    model: { ...name, description: 'Only of this model.', examples: ['llm/sim-small'] },
  },
} as const

const schema = {
  operationId: 'listLimits',
  summary: 'Read what is left of your limits',
  description:
    "The limits of the models that you may use, in each of your subscriptions; with a key, in the key's, and the key's own. Asking counts nothing and opens no window.",
  tags: ['Usage'],
  querystring: parameters,
  response: {
    200: {
      description:
        'Ordered by subscription, model, kind and length of the window; limits of the key itself come last.',
      ...object('LimitList', {
        object: { type: 'string', const: 'list' },
        data: objects('CallerLimit', {
          subscription: { type: 'string' },
          model: {
            type: ['string', 'null'],
            description: 'null: all models together.',
            examples: ['llm/sim-small'],
          },
          kind: kindSchema,
          scope: string('Whose use is counted: yours with all keys, or that of this key.', {
            enum: ['user', 'key'],
          }),
          window: windowSchema,
          limit: { ...count, description: 'Tokens or requests in a window, or at a time.' },
          used: count,
          remaining: count,
          resetsAt: {
            ...timestamp,
            type: ['string', 'null'],
            description:
              'When the window ends; null: none is open, the next response or request opens one.',
          },
        }),
        has_more: boolean(
          `Whether there are more than these ${maxLimits.toLocaleString('en')}: name a subscription or a model.`,
        ),
      }),
    },
    ...refusals(400, 401, 429, 500, 503),
  },
} as const

type Parameters = FromSchema<typeof parameters>

/** The answer. */
export type LimitList = FromSchema<(typeof schema.response)[200]>

/** A limit of the caller. */
interface Own {
  readonly subscription: string
  /** null: all together. */
  readonly model: string | null
  readonly limit: CountedLimit
}

/** Adds the route. */
export function listLimitsOfCaller(app: FastifyInstance, deps: ExternalDeps): void {
  const { snapshot, readCounters, clock } = deps
  app.get<{ Querystring: Parameters }>('/v1/limits', { schema }, async (request) => {
    const caller = callerOf(request)
    const own = limitsOf(caller, request.query, snapshot())
    const shown = own.slice(0, maxLimits)
    const now = clock()
    const windows = await readCounters(
      shown.map(({ limit }) => counterOf(limit, caller.user)),
      now,
    )
    const states = limitStates(
      shown.map(({ limit }) => limit),
      windows,
      now,
    )
    return {
      object: 'list',
      data: shown.map(({ subscription, model }, i) => {
        const { limit, used, remaining, resetsAt } = states[i] as (typeof states)[number]
        const ends = windows[i] && endOf(limit, resetsAt)
        return {
          ...{ subscription, model, kind: limit.kind, scope: limit.scope },
          ...{ window: limit.window || null, limit: limit.limit, used, remaining },
          resetsAt: ends ?? null,
        }
      }),
      has_more: own.length > shown.length,
    }
  })
}

/** One more than are shown is enough. */
function limitsOf(caller: Caller, only: Parameters, snapshot: Snapshot): readonly Own[] {
  const own: Own[] = []
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
