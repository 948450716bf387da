/** `GET /v1/counters` and `POST /v1/counters/reset`: counters of a user, of a key or of a shared limit, for administrators. */

import type { FastifyRequest } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import type { AuditTarget } from '../../audit/event.ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import { toTimestamp } from '../../formats/time.ts'
import type { ApiKeyRecord } from '../../keys/rules/api-key.ts'
import { resourceOfCounter, sharerOfCounter } from '../../models/rules/shared-limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { maxResets } from '../../ratelimit/counters.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, noteForeignRead, recordForeignRead, recordIntent } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { requirePlainText } from '../http/body.ts'
import { object, optional, responses, string, timestamp } from '../http/schema.ts'
import { withoutEmpty } from '../http/without-empty.ts'
import { isUuid, requireKey } from '../keys/key-access.ts'
import {
  currencyOf,
  currencySchema,
  figureSchema,
  isSelectedLimit,
  limitFields,
  limitFilters,
  limitsIn,
  limitsOfKeyRecord,
  maxLimits,
  nameSchema,
  type OwnLimit,
  readShownLimits,
  sortLimits,
} from './limit-state.ts'
import { selectSharedLimits } from './shared-limits.ts'
import { unknownLimitError } from './unknown-limit.ts'

const properties = {
  user: {
    ...nameSchema,
    description: 'User whose counters to list; absent with key_id, and for a shared limit.',
  },
  key_id: {
    ...nameSchema,
    description: 'Instead of user: a key, for the counters of its own limits.',
  },
  name: {
    ...nameSchema,
    description:
      "Only limits with this name. Without user and key_id a shared limit: the model's, else the subscription's, else the installation's, else any resource's with this limit; a reset needs exactly one.",
  },
  whom: {
    ...nameSchema,
    description:
      'Only the counter of this group (users: the users that the subscription names), organization, or for a limit of a model this subscription.',
  },
  ...limitFilters,
  window: { ...nameSchema, description: 'Only of limits with this window.', examples: ['1h'] },
} as const

const selection = {
  title: 'CounterSelection',
  type: 'object',
  additionalProperties: false,
  properties,
} as const

const { remaining: _, percentLeft, enforced, startsAt, resetsAt, limit, ...fields } = limitFields
const counter = object('Counter', {
  ...fields,
  limit: { ...figureSchema, description: 'For cost a decimal number as a string; used likewise.' },
  used: figureSchema,
  resetsAt: { ...resetsAt, description: 'When its window ends; null for concurrency.' },
})

const subject = {
  user: optional(string('With key_id the owner of the key. Absent for a shared limit.')),
  key_id: optional(string('If it was requested.')),
  unknown: optional({
    type: 'array',
    items: { type: 'string', enum: ['subscription', 'model'] },
    description:
      'A requested subscription or model that is not in force, so that it has no counters; absent if there is none.',
  }),
} as const

const listSchema = {
  operationId: 'listCounters',
  summary: 'Read the counters of a user, of a key or of a shared limit',
  description: 'For administrators. Those that are not zero or have requests in progress.',
  tags: ['Usage'],
  querystring: selection,
  response: responses(
    'Ordered by subscription, model, kind and length of the window.',
    [400, 404],
    'CounterList',
    {
      object: { type: 'string', const: 'list' },
      ...subject,
      data: { type: 'array', items: counter },
      currency: currencySchema,
    },
  ),
} as const

const resetSchema = {
  operationId: 'resetCounters',
  summary: 'Reset the counters of a user, of a key or of a shared limit',
  description: `For administrators. Resets counters of tokens, requests and cost, at most ${maxResets} at once, and returns their previous values. Responses that ended
before are not added again; the windows end as before. The usage ledger does not change.`,
  tags: ['Usage'],
  body: selection,
  response: responses('The previous counters.', [400, 404, 413], 'CountersReset', {
    ...subject,
    at: timestamp,
    reset: { type: 'array', items: counter },
    currency: currencySchema,
  }),
} as const

/** The responses. */
export type ShownCounters = FromSchema<(typeof listSchema.response)[200]>
export type CountersReset = FromSchema<(typeof resetSchema.response)[200]>

type Selected = FromSchema<typeof selection>

/** Adds both routes. */
export function counterRoutes(app: Api, deps: ExternalDeps): void {
  const { keys, snapshot, resetCounters, isAdmin, clock } = deps

  /** Refuses callers who are no administrators; returns the owner of the counters. */
  async function admit(request: FastifyRequest, selected: Selected): Promise<Subject> {
    const { validationError } = request
    if (validationError === undefined) addToOutcome(request, targetOf(selected))
    if (!(await isAdmin(callerOf(request)))) {
      const message = 'Only an administrator may see or reset counters.'
      throw new ServiceError('admin_required', { message })
    }
    if (validationError !== undefined) throw validationError
    for (const [field, text] of Object.entries(selected)) requirePlainText(field, text)
    const { user, key_id: keyId, name, whom, model } = selected
    if (user === undefined && keyId === undefined) {
      if (name !== undefined) return {}
      throw invalidRequest('Give user, key_id, or the name of a shared limit.')
    }
    if (user !== undefined && keyId !== undefined)
      throw invalidRequest('Name either user or key_id.')
    if (whom !== undefined)
      throw invalidRequest(
        'whom: cannot be combined with user or key_id, whose counters are not shared.',
      )
    if (keyId === undefined) return { user: user as string }
    if (model !== undefined)
      throw invalidRequest(
        'model cannot be combined with key_id: limits of a key count all its models together.',
      )
    const key = requireKey(isUuid(keyId) ? await keys.findById(keyId) : undefined)
    addToOutcome(request, { user: key.user })
    return { user: key.user, key }
  }

  /** The counters above 0. */
  async function readUsed(selected: Selected, subject: Subject, isOne = false) {
    const all = await limitsOf(selected, subject, snapshot())
    if (isOne && subject.user === undefined) requireOne(all)
    if (all.length > maxLimits) throw tooMany(subject, 'selects too many limits')
    return (await readShownLimits(deps, all)).filter(({ isUsed }) => isUsed)
  }

  /** Unknown names: their counters are empty, which could be taken for the counters of the intended name. */
  function unknownIn({ subscription, model }: Selected) {
    const { subscriptions, models } = snapshot()
    const unknown = [
      ...(subscription === undefined || subscriptions.has(subscription) ? [] : ['subscription']),
      ...(model === undefined || models.has(model) ? [] : ['model']),
    ]
    return unknown.length > 0 ? { unknown } : {}
  }

  // Others get 403 whatever they select.
  const attachValidation = true
  const reading = {
    schema: listSchema,
    config: { audit: 'counter.read' },
    attachValidation,
  } as const
  app.get('/v1/counters', reading, async (request) => {
    noteForeignRead(request, {})
    const subject = await admit(request, request.query)
    const used = await readUsed(request.query, subject)
    await recordForeignRead(request, used.length)
    const data = used.map(({ shown }) => shown)
    const currency = currencyOf(data, deps.billingCurrency)
    return {
      object: 'list',
      ...toSubjectJson(subject),
      ...unknownIn(request.query),
      data,
      ...currency,
    }
  })
  const resetting = {
    schema: resetSchema,
    config: { audit: 'counter.reset' },
    attachValidation,
  } as const
  app.post('/v1/counters/reset', resetting, async (request) => {
    const subject = await admit(request, request.body)
    // Requests in progress end by themselves.
    const used = (await readUsed(request.body, subject, true)).filter(
      ({ shown }) => shown.kind !== 'concurrency',
    )
    if (used.length > maxResets) throw tooMany(subject, `selects more than ${maxResets} counters`)
    const { user } = subject
    const whose = user === undefined ? resourceIn(used[0]?.counter) : { user }
    await recordIntent(request, { ...targetOf(request.body), ...whose })
    const at = clock()
    const reset = used.map(({ counter }) => counter)
    if (reset.length > 0) await resetCounters(reset, at)
    addToOutcome(request, {}, used.length)
    const shown = used.map((each) => each.shown)
    const currency = currencyOf(shown, deps.billingCurrency)
    const about = { ...toSubjectJson(subject), ...unknownIn(request.body) }
    return { ...about, at: toTimestamp(at), reset: shown, ...currency }
  })
}

/** The owner of the counters; empty for a shared limit. */
interface Subject {
  readonly user?: string
  readonly key?: ApiKeyRecord
}

function toSubjectJson({ user, key }: Subject) {
  return { ...(user !== undefined && { user }), ...(key && { key_id: key.id }) }
}

/** The resource of a counter's limit, as the audit trail names it; none for the Tenant. */
function resourceIn(counter: Counter | undefined): AuditTarget {
  const resource = counter ? resourceOfCounter(counter) : 'Tenant'
  if (resource === 'Tenant') return {}
  return resource.includes('/') ? { resource } : { subscription: resource }
}

/** As the audit trail names it. */
function targetOf({ user, key_id: keyId, subscription, model, name, whom }: Selected): AuditTarget {
  const resource = name && model && `ModelRef/${model}`
  return withoutEmpty({ user, keyId, subscription, limit: name, resource, whom })
}

async function limitsOf(selected: Selected, { user, key }: Subject, snapshot: Snapshot) {
  if (user === undefined) return sharedLimitsOf(selected, snapshot)
  if (key !== undefined) {
    if ((selected.subscription ?? key.subscription) !== key.subscription) return []
    const own = limitsOfKeyRecord(key, snapshot)
    return sortLimits(own.filter(({ limit }) => isSelectedLimit(limit, selected)))
  }
  const { subscription: only } = selected
  const { subscriptions } = snapshot
  const names = only === undefined ? [...subscriptions.keys()].sort() : [only]
  const drawing = { user, poolIn: undefined, mayUse: () => true }
  return limitsIn(
    names.flatMap((name) => subscriptions.get(name) ?? []),
    selected,
    drawing,
  )
}

/** All counters of a shared limit; without a resource, the Tenant's limit, or else the limits of this name of all resources. */
async function sharedLimitsOf(
  { name = '', subscription, model, window, whom }: Selected,
  snapshot: Snapshot,
): Promise<readonly OwnLimit[]> {
  const origin = model ? 'model' : subscription ? 'subscription' : undefined
  const all = (await selectSharedLimits(snapshot, { name, subscription, model })).filter(
    ({ limit }) => isSelectedLimit(limit, { window }) && limit.origin === (origin ?? limit.origin),
  )
  const ofTenant = all.filter(({ limit }) => limit.origin === 'tenant')
  const found = ofTenant.length > 0 ? ofTenant : all
  if (found.length === 0) throw await unknownLimitError({ name, subscription, model }, snapshot)
  const chosen = found.filter(
    ({ limit, counter }) =>
      (whom ?? sharerOfCounter(limit, counter)) === sharerOfCounter(limit, counter),
  )
  if (chosen.length > 0) return sortLimits(chosen)
  const message = `whom: no ${found[0]?.limit.scope} of this name shares the limit.`
  throw new ServiceError('not_found', { message })
}

/** Requires limits of one resource, so that no other one is reset by mistake. */
function requireOne(limits: readonly OwnLimit[]): void {
  const resources = [...new Set(limits.map(({ counter }) => resourceOfCounter(counter)))]
  if (resources.length < 2) return
  throw invalidRequest(
    `name: several have a limit of this name, ${resources.slice(0, 2).join(' and ')}; add subscription or model.`,
  )
}

function tooMany({ user }: Subject, problem: string): ServiceError {
  if (user === undefined) return invalidRequest(`name ${problem}: add whom.`)
  return invalidRequest(`user ${problem}: name a subscription or a model.`)
}
