/** `GET /v1/counters` and `POST /v1/counters/reset`: counters of a user or a key, for administrators. */

import type { FastifyRequest } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import { toTimestamp } from '../../formats/timestamp.ts'
import type { ApiKeyRecord } from '../../keys/rules/api-key.ts'
import { compileCaps } from '../../keys/rules/compiled-caps.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { maxResets } from '../../ratelimit/counters.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, intend, lookAtOthers, showOthers } from '../http/audit.ts'
import { callerOf } from '../http/authenticate.ts'
import { requirePlainText } from '../http/body.ts'
import { answers, object, optional, string, timestamp } from '../http/schema.ts'
import { foundKey, isKeyId } from '../keys/key-access.ts'
import {
  filters,
  limitFields,
  limitsIn,
  maxLimits,
  name,
  type OwnLimit,
  readLimits,
} from './limit-state.ts'

const properties = {
  user: { ...name, description: 'Whose counters; left out with key_id.' },
  key_id: {
    ...name,
    description: 'Instead of user: a key with limits of its own, whose counters are meant.',
  },
  ...filters,
  window: { ...name, description: 'Only of limits with this window.', examples: ['1h'] },
} as const

const selection = {
  title: 'CounterSelection',
  type: 'object',
  additionalProperties: false,
  properties,
} as const

const { remaining: _, resetsAt, ...fields } = limitFields
const counter = object('Counter', {
  ...fields,
  resetsAt: { ...resetsAt, description: 'When its window ends; null: of concurrency.' },
})

const subject = {
  user: string('With key_id the owner of the key.'),
  key_id: optional(string('If it was asked for.')),
} as const

const listSchema = {
  operationId: 'listCounters',
  summary: 'Read the counters of a user or a key',
  description: 'For administrators. Those of which something is used, or is in progress.',
  tags: ['Usage'],
  querystring: selection,
  response: answers(
    'Ordered by subscription, model, kind and length of the window.',
    [400, 403, 404],
    'CounterList',
    {
      object: { type: 'string', const: 'list' },
      ...subject,
      data: { type: 'array', items: counter },
    },
  ),
} as const

const resetSchema = {
  operationId: 'resetCounters',
  summary: 'Reset the counters of a user or a key',
  description: `For administrators. Begins the windows of tokens and requests anew, at most ${maxResets} at once, and shows what was used. Responses that ended
before are not added again; the windows end when they would have. The usage ledger does not change.`,
  tags: ['Usage'],
  body: selection,
  response: answers('The counters as they were.', [400, 403, 404, 413], 'CountersReset', {
    ...subject,
    at: timestamp,
    reset: { type: 'array', items: counter },
  }),
} as const

/** The answers. */
export type CounterList = FromSchema<(typeof listSchema.response)[200]>
export type CountersReset = FromSchema<(typeof resetSchema.response)[200]>

type Selected = FromSchema<typeof selection>

/** Adds both routes. */
export function counterRoutes(app: Api, deps: ExternalDeps): void {
  const { keys, snapshot, resetCounters, isAdmin, clock } = deps

  /** Refuses whoever may not; returns whose counters are meant. */
  async function admit(request: FastifyRequest, selected: Selected): Promise<Subject> {
    for (const [field, text] of Object.entries(selected)) requirePlainText(field, text)
    const { user, key_id: keyId, subscription } = selected
    addToOutcome(request, {
      ...(user !== undefined && { user }),
      ...(keyId !== undefined && { keyId }),
      ...(subscription && { subscription }),
    })
    if (!(await isAdmin(callerOf(request)))) {
      const message = 'Only an administrator may see or reset counters.'
      throw new ServiceError('admin_required', { message })
    }
    if (user !== undefined && keyId === undefined) return { user }
    if (user !== undefined || keyId === undefined)
      throw invalidRequest('Name either user or key_id.')
    if (selected.model !== undefined)
      throw invalidRequest('model: the counters of a key are of all models.')
    const key = foundKey(isKeyId(keyId) ? await keys.findById(keyId) : undefined)
    addToOutcome(request, { user: key.user })
    return { user: key.user, key }
  }

  /** Those of which something is used. */
  async function readUsed(selected: Selected, { user, key }: Subject) {
    const all =
      key === undefined ? limitsOf(selected, snapshot()) : limitsOfKey(selected, key, snapshot())
    if (all.length > maxLimits) throw tooMany('selects too many limits')
    return (await readLimits(deps, user, all)).filter(({ isUsed }) => isUsed)
  }

  app.get(
    '/v1/counters',
    { schema: listSchema, config: { audit: 'counter.read' } },
    async (request) => {
      lookAtOthers(request, {})
      const subject = await admit(request, request.query)
      const used = await readUsed(request.query, subject)
      await showOthers(request, used.length)
      return { object: 'list', ...show(subject), data: used.map(({ shown }) => shown) }
    },
  )
  app.post(
    '/v1/counters/reset',
    { schema: resetSchema, config: { audit: 'counter.reset' } },
    async (request) => {
      const subject = await admit(request, request.body)
      // Requests in progress end by themselves.
      const used = (await readUsed(request.body, subject)).filter(
        ({ shown }) => shown.kind !== 'concurrency',
      )
      if (used.length > maxResets) throw tooMany(`selects more than ${maxResets} counters`)
      const { user, key } = subject
      const { subscription } = request.body
      await intend(request, {
        user,
        ...(key && { keyId: key.id }),
        ...(subscription && { subscription }),
      })
      const at = clock()
      const reset = used.map(({ counter }) => counter)
      if (reset.length > 0) await resetCounters(reset, at)
      addToOutcome(request, {}, used.length)
      return { ...show(subject), at: toTimestamp(at), reset: used.map(({ shown }) => shown) }
    },
  )
}

/** Whose counters. */
interface Subject {
  readonly user: string
  readonly key?: ApiKeyRecord
}

function show({ user, key }: Subject) {
  return { user, ...(key && { key_id: key.id }) }
}

function limitsOf(selected: Selected, { subscriptions }: Snapshot): readonly OwnLimit[] {
  const { subscription: only } = selected
  const names = only === undefined ? [...subscriptions.keys()].sort() : [only]
  return limitsIn(
    names.flatMap((name) => subscriptions.get(name) ?? []),
    selected,
  )
}

/** A key's own. */
function limitsOfKey(
  selected: Selected,
  key: ApiKeyRecord,
  { subscriptions }: Snapshot,
): readonly OwnLimit[] {
  const { subscription } = key
  if ((selected.subscription ?? subscription) !== subscription) return []
  const calendar = subscriptions.get(subscription)?.calendar ?? {}
  return (compileCaps(key)?.limitsOn?.(undefined, calendar).limits ?? [])
    .filter(({ window }) => window === (selected.window ?? window))
    .map((limit) => ({ subscription, model: null, limit }))
}

function tooMany(problem: string): ServiceError {
  return invalidRequest(`user ${problem}: name a subscription or a model.`)
}
