/** `POST`, `GET` and `DELETE /v1/admin/increases` (contract, 3.22): more of a limit by name for a while, for administrators. */

import type { FromSchema } from 'json-schema-to-ts'
import type { AuditTarget } from '../../audit/event.ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import type { Exact } from '../../formats/exact.ts'
import { parseMoney } from '../../formats/money.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/timestamp.ts'
import type { LimitKind } from '../../kinds/limits.ts'
import { whomOf } from '../../models/rules/shared-limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { type KeptIncrease, maxIncreases } from '../../ratelimit/increases/active-increases.ts'
import { kindOf, readCounterKey } from '../../ratelimit/rules/counter-key.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, intend, lookAtOthers, showOthers } from '../http/audit.ts'
import { callerOf } from '../http/authenticate.ts'
import { ignoreBodies, requirePlainText } from '../http/body.ts'
import { answers, objects, optional, string, timestamp } from '../http/schema.ts'
import { foundKey, isKeyId } from '../keys/key-access.ts'
import { orUnsure } from '../keys/propagation.ts'
import {
  figure,
  kindSchema,
  limitsIn,
  name,
  type OwnLimit,
  scopeSchema,
  toFigure,
} from './limit-state.ts'
import { selectShared } from './shared-limits.ts'
import { readTime } from './usage-question.ts'

const maxDays = 92
const dayMs = 86_400_000
const maxLimit = 1_000_000_000_000_000

const body = {
  title: 'NewIncrease',
  type: 'object',
  additionalProperties: false,
  required: ['name', 'limit', 'until', 'reason'],
  properties: {
    subscription: { ...name, description: 'Whose spec.limits has the limit.' },
    model: {
      ...name,
      description: 'The same of a ModelRef; without both it is the Tenant.',
      examples: ['llm/sim-small'],
    },
    name: { ...name, description: 'Of the limit.' },
    user: { ...name, description: 'Whose, of a limit per user.' },
    whom: {
      ...name,
      description:
        'Of a limit that has several counters: the group (users: those whom the subscription names), the organization, or of a limit of a model the subscription.',
    },
    limit: {
      ...figure,
      description: 'As in the resource: of cost a decimal number as a string. Higher than there.',
    },
    until: string(`When it ends by itself (RFC 3339), within ${maxDays} days.`, {
      examples: ['2026-03-01T12:00:00Z'],
    }),
    reason: { type: 'string', minLength: 1, maxLength: 256 },
  },
} as const

const fields = {
  id: { type: 'string' },
  subscription: {
    type: ['string', 'null'],
    description: 'null: the limit is of a model, or without one of the installation.',
  },
  model: { type: ['string', 'null'] },
  name: string('Of the limit.'),
  kind: kindSchema,
  scope: scopeSchema,
  user: optional(string('Of a limit per user.')),
  whom: optional(string('Of a limit that has several counters.')),
  limit: figure,
  until: timestamp,
  reason: { type: 'string' },
  createdBy: { type: 'string' },
  createdAt: timestamp,
} as const

const changed = {
  ...fields,
  propagation: string(
    'pending: in force in the process that answers; others read it within about a second, or when they reach the database again.',
    { enum: ['pending'] },
  ),
} as const

const common = { tags: ['Administration'], security: [{ identityToken: [] }] } as const

const createSchema = {
  ...common,
  operationId: 'createIncrease',
  summary: 'Increase a limit for a while',
  description: `For administrators. The higher of the limit and its increases holds. Counters stay as they are, and no model is opened. At most ${maxIncreases.toLocaleString('en')} are in force at a time.`,
  body,
  response: answers('In force.', [400, 403, 404, 413], 'IncreaseCreated', changed),
} as const

const listSchema = {
  ...common,
  operationId: 'listIncreases',
  summary: 'List the increases of limits that are in force',
  description: 'For administrators.',
  response: answers('Those that are not over, the highest first.', [403], 'IncreaseList', {
    object: { type: 'string', const: 'list' },
    data: objects('Increase', fields),
  }),
} as const

const endSchema = {
  ...common,
  operationId: 'endIncrease',
  summary: 'End an increase of a limit',
  description: 'For administrators. The limit is that of the resource again.',
  params: {
    type: 'object',
    required: ['increaseId'],
    properties: { increaseId: { type: 'string' } },
  },
  response: answers('The increase, now over.', [403, 404], 'IncreaseEnded', changed),
} as const

/** The answer. */
export type IncreaseList = FromSchema<(typeof listSchema.response)[200]>

type Body = FromSchema<typeof body>

const propagation = 'pending'
const unsure =
  'The key store did not answer: it may or may not have been done. GET /v1/admin/increases lists what is in force.'

/** Adds the routes, in a scope of administrators. */
export function increaseRoutes(app: Api, deps: ExternalDeps): void {
  const { snapshot, clock } = deps

  function opened() {
    if (deps.increases === undefined) throw new ServiceError('store_unavailable')
    return deps.increases
  }

  app.post(
    '/v1/admin/increases',
    { schema: createSchema, config: { audit: 'increase.create' } },
    async (request) => {
      const { body: asked } = request
      for (const field of ['subscription', 'model', 'name', 'user', 'whom', 'reason'] as const)
        requirePlainText(field, asked[field])
      const target = targetOf(asked)
      addToOutcome(request, target)
      const increases = opened()
      const now = clock()
      const until = readUntil(asked.until, now)
      const { limit, counter } = choose(await limitsOfName(asked, snapshot()), asked)
      const higher = readFigure(limit.kind, asked.limit)
      if (higher <= limit.limit)
        throw invalidRequest(
          `limit must be above that of the resource, ${toFigure(limit, limit.limit)}.`,
        )
      await intend(request, target)
      const { user: createdBy } = callerOf(request)
      const { reason } = asked
      const { key } = counter
      const added = await orUnsure(
        increases.add({
          counter: key,
          per: limit.scope,
          limit: higher,
          until,
          reason,
          createdBy,
          createdAt: now,
        }),
        unsure,
      )
      if (added === undefined)
        throw invalidRequest(
          `${maxIncreases.toLocaleString('en')} increases are in force; end one first.`,
        )
      return { ...toJson(added), propagation }
    },
  )
  app.get(
    '/v1/admin/increases',
    { schema: listSchema, config: { audit: 'increase.read' } },
    async (request) => {
      lookAtOthers(request, {})
      const data = (await opened().list()).map(toJson)
      await showOthers(request, data.length)
      return { object: 'list', data }
    },
  )
  app.register(async (scope: Api) => {
    ignoreBodies(scope)
    const config = { audit: 'increase.end' } as const
    scope.delete(
      '/v1/admin/increases/:increaseId',
      { schema: endSchema, config },
      async (request) => {
        const { increaseId: id } = request.params
        const increases = opened()
        if (isKeyId(id)) await intend(request)
        const ended = foundKey(isKeyId(id) ? await orUnsure(increases.end(id), unsure) : undefined)
        const shown = toJson(ended)
        addToOutcome(request, targetOf(shown))
        return { ...shown, propagation }
      },
    )
  })
}

/** As the trail names it. */
function targetOf({
  subscription,
  model,
  name: limit,
  user,
  whom,
}: {
  readonly [Field in 'subscription' | 'model' | 'user' | 'whom']?: string | null | undefined
} & { readonly name: string }): AuditTarget {
  const resource = model ? `ModelRef/${model}` : subscription ? undefined : 'Tenant'
  return {
    ...(user && { user }),
    ...(subscription && { subscription }),
    ...(resource && { resource }),
    limit,
    ...(whom && { whom }),
  }
}

function readUntil(raw: string, now: number): number {
  const until = readTime('until', raw) as number
  if (until <= now) throw invalidRequest('until is over; it must be in the future.')
  if (until > now + maxDays * dayMs) throw invalidRequest(`until must be within ${maxDays} days.`)
  return until
}

/** Each counter of the limits that are meant, once. */
async function limitsOfName(
  { subscription, model, name, user = '' }: Body,
  snapshot: Snapshot,
): Promise<readonly OwnLimit[]> {
  if (subscription !== undefined && model !== undefined)
    throw invalidRequest('Name either subscription or model: whose spec.limits has the limit.')
  const { subscriptions } = snapshot
  const open =
    subscription === undefined
      ? subscriptions.values()
      : [subscriptions.get(subscription)].filter((each) => each !== undefined)
  const drawing = { user, poolIn: undefined, mayUse: () => true }
  const origin =
    model !== undefined ? 'model' : subscription !== undefined ? 'subscription' : 'tenant'
  return [
    ...(await selectShared(snapshot, { subscription, model, name })),
    ...limitsIn(open, { model, name }, drawing, snapshot),
  ].filter(({ limit }) => limit.origin === origin)
}

/** The one that is meant. */
function choose(found: readonly OwnLimit[], { user, whom }: Body): OwnLimit {
  const [first] = found
  if (first === undefined) {
    const message = 'No limit of this name is in force there: spec.limits of the resource has them.'
    throw new ServiceError('not_found', { message })
  }
  const { scope } = first.limit
  if (!first.isEnforced)
    throw invalidRequest('name: the limit is only counted, and refuses nobody.')
  if (scope === 'user') {
    if (whom !== undefined) throw invalidRequest('whom: the limit is per user; name the user.')
    if (user === undefined) throw invalidRequest('user is needed: the limit is per user.')
    return first
  }
  if (user !== undefined) throw invalidRequest(`user: the limit is per ${scope}, not per user.`)
  const chosen = found.find(({ limit, counter }) => whomOf(limit, counter) === whom)
  if (chosen !== undefined) return chosen
  if (whom === undefined) throw invalidRequest(`whom is needed: the limit is per ${scope}.`)
  if (whomOf(first.limit, first.counter) === undefined)
    throw invalidRequest(`whom: the limit is per ${scope}, and all share it; leave it out.`)
  throw invalidRequest(`whom: no ${scope} of this name shares the limit.`)
}

function readFigure(kind: LimitKind, raw: number | string): Exact {
  if (kind === 'cost') {
    const nano = typeof raw === 'string' ? parseMoney(raw) : undefined
    if (nano !== undefined) return nano
    throw invalidRequest(
      'limit is one on cost: a decimal number as a string, at most "9000000000", with at most 9 digits behind the point.',
    )
  }
  if (typeof raw === 'number' && raw <= maxLimit) return raw
  throw invalidRequest(`limit must be an integer of at most ${maxLimit}.`)
}

function toJson({ id, counter, per, limit, until, reason, createdBy, createdAt }: KeptIncrease) {
  const { subscription: resource, model, counted, user: whom } = readCounterKey(counter)
  const kind = kindOf({ counted })
  const [, ofModel] = /^ModelRef\/(.*)$/.exec(resource) ?? []
  const pool = whom || (per === 'group' ? 'users' : '')
  return {
    id,
    subscription: ofModel === undefined && resource !== 'Tenant' ? resource : null,
    model: ofModel ?? null,
    name: model.slice(1),
    kind,
    scope: per,
    ...(pool && (per === 'user' ? { user: pool } : { whom: pool })),
    limit: toFigure({ kind }, limit),
    until: toEndTimestamp(until),
    reason,
    createdBy,
    createdAt: toTimestamp(createdAt),
  }
}
