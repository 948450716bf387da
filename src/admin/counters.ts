/** `GET /v1/counters` and `POST /v1/counters/reset`: the token counters of a user, for administrators. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import { type CountedLimit, counterOf, limitStates } from '../core/decision/counter.ts'
import { ServiceError } from '../core/decision/errors.ts'
import type { Snapshot } from '../core/decision/snapshot.ts'
import { toTimestamp } from '../core/formats/timestamp.ts'
import { maxResets, type ResettableCounters } from '../store/counters.ts'
import type { IsAdmin } from './administrators.ts'
import { addToOutcome, intend, lookAtOthers, showOthers } from './audit.ts'
import { callerOf } from './authenticate.ts'
import { type BodyOf, requirePlainText } from './body.ts'
import { byKindAndWindow, endOf, kindSchema, windowSchema } from './limit-state.ts'
import { refusals, timestamp } from './schemas.ts'

export interface CountersDeps {
  readonly snapshot: () => Snapshot
  readonly readCounters: ResettableCounters['readFresh']
  readonly resetCounters: ResettableCounters['reset']
  readonly isAdmin: IsAdmin
  readonly clock: () => number
}

const name = { type: 'string', minLength: 1, maxLength: 1_024 } as const
const count = { type: 'integer', minimum: 0 } as const

const properties = {
  user: { ...name, description: 'Whose counters.' },
  subscription: { ...name, description: 'Only of this subscription.' },
  model: { ...name, description: 'Only of this model.', examples: ['llm/sim-small'] },
  window: { ...name, description: 'Only of limits with this window.', examples: ['1h'] },
} as const

const selection = {
  title: 'CounterSelection',
  type: 'object',
  additionalProperties: false,
  required: ['user'],
  properties,
} as const

const counter = {
  title: 'Counter',
  type: 'object',
  required: ['subscription', 'model', 'kind', 'window', 'limit', 'used', 'resetsAt'],
  properties: {
    subscription: { type: 'string' },
    model: { type: 'string' },
    kind: kindSchema,
    window: windowSchema,
    limit: count,
    used: count,
    resetsAt: {
      ...timestamp,
      type: ['string', 'null'],
      description: 'When its window ends; null: of concurrency.',
    },
  },
} as const

const listSchema = {
  operationId: 'listCounters',
  summary: 'Read the token counters of a user',
  description:
    'For administrators. Those with an open window or requests in progress; asking opens none.',
  tags: ['Usage'],
  querystring: selection,
  response: {
    200: {
      title: 'CounterList',
      description: 'Ordered by subscription, model, kind and length of the window.',
      type: 'object',
      required: ['object', 'user', 'data'],
      properties: {
        object: { type: 'string', const: 'list' },
        user: { type: 'string' },
        data: { type: 'array', items: counter },
      },
    },
    ...refusals(400, 401, 403, 429, 500, 503),
  },
} as const

const resetSchema = {
  operationId: 'resetCounters',
  summary: 'Reset the token counters of a user',
  description: `For administrators. Ends the windows of tokens and requests, at most ${maxResets} at once, and shows what they held. Responses that ended
before are not added again. The usage ledger does not change.`,
  tags: ['Usage'],
  body: selection,
  response: {
    200: {
      title: 'CountersReset',
      description: 'The counters as they were.',
      type: 'object',
      required: ['user', 'at', 'reset'],
      properties: {
        user: { type: 'string' },
        at: timestamp,
        reset: { type: 'array', items: counter },
      },
    },
    ...refusals(400, 401, 403, 413, 429, 500, 503),
  },
} as const

type Selected = FromSchema<typeof selection>

/** The most limits that one request looks at. */
const maxLimits = 1_000

/** Adds both routes. */
export function counterRoutes(app: FastifyInstance, deps: CountersDeps): void {
  const { snapshot, readCounters, resetCounters, isAdmin, clock } = deps

  async function admit(request: FastifyRequest, selected: Selected): Promise<void> {
    for (const [field, text] of Object.entries(selected)) requirePlainText(field, text)
    const { user, subscription } = selected
    addToOutcome(request, { user, ...(subscription && { subscription }) })
    if (await isAdmin(callerOf(request))) return
    const message = 'Only an administrator may see or reset token counters.'
    throw new ServiceError('admin_required', { message })
  }

  /** Those with an open window. */
  async function readOpen(selected: Selected) {
    const all = limitsOf(selected, snapshot())
    if (all.length > maxLimits) throw tooMany('selects too many limits')
    const limits = all.map(({ limit }) => limit)
    const now = clock()
    const asked = limits.map((limit) => counterOf(limit, selected.user))
    const windows = await readCounters(asked, now)
    const states = limitStates(limits, windows, now)
    return all.flatMap(({ subscription, model, limit }, i) => {
      const [open, state, counter] = [windows[i], states[i], asked[i]]
      if (open === undefined || state === undefined || counter === undefined) return []
      const { used, resetsAt } = state
      const isOpen = limit.kind !== 'concurrency' || used > 0
      const { kind, window } = limit
      const shown = {
        ...{ subscription, model, kind, window: window || null, limit: limit.limit, used },
        resetsAt: endOf(limit, resetsAt),
      }
      return isOpen ? [{ counter, shown }] : []
    })
  }

  app.get<{ Querystring: Selected }>(
    '/v1/counters',
    { schema: listSchema, config: { audit: 'counter.read' } },
    async (request) => {
      lookAtOthers(request, {})
      await admit(request, request.query)
      const open = await readOpen(request.query)
      await showOthers(request, open.length)
      return { object: 'list', user: request.query.user, data: open.map(({ shown }) => shown) }
    },
  )
  app.post<{ Body: BodyOf<typeof selection> }>(
    '/v1/counters/reset',
    { schema: resetSchema, config: { audit: 'counter.reset' } },
    async (request) => {
      await admit(request, request.body)
      // Requests in progress end by themselves.
      const open = (await readOpen(request.body)).filter(({ counter }) => counter.windowMs > 0)
      if (open.length > maxResets) throw tooMany(`selects more than ${maxResets} counters`)
      const { user, subscription } = request.body
      await intend(request, { user, ...(subscription && { subscription }) })
      const at = clock()
      const reset = open.map(({ counter }) => counter)
      if (reset.length > 0) await resetCounters(reset, at)
      addToOutcome(request, {}, open.length)
      return { user, at: toTimestamp(at), reset: open.map(({ shown }) => shown) }
    },
  )
}

interface Selection {
  readonly subscription: string
  readonly model: string
  readonly limit: CountedLimit
}

/** In order, and at most one more than may be looked at. */
function limitsOf(selected: Selected, { subscriptions }: Snapshot): readonly Selection[] {
  const found: Selection[] = []
  const { subscription: only } = selected
  const named = only === undefined ? [...subscriptions.keys()].sort() : [only]
  for (const name of named) {
    for (const [model, limits] of subscriptions.get(name)?.limits ?? []) {
      if (selected.model !== undefined && model !== selected.model) continue
      const inOrder = [...limits].sort(byKindAndWindow)
      for (const limit of inOrder) {
        if (selected.window !== undefined && limit.window !== selected.window) continue
        found.push({ subscription: name, model, limit })
      }
      if (found.length > maxLimits) return found
    }
  }
  return found
}

function tooMany(problem: string): ServiceError {
  const message = `user ${problem}: name a subscription or a model.`
  return new ServiceError('invalid_request', { message })
}
