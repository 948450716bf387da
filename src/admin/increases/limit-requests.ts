/** `POST` and `GET /v1/limit-requests` (contract, 3.23): users request a temporary increase of a limit. */

import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import { toAmount } from '../../formats/money.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/time.ts'
import { sharerOfCounter } from '../../models/rules/shared-limits.ts'
import { showsFigures } from '../../ratelimit/rules/limit-headers.ts'
import {
  type LimitRequest,
  listedDays,
  maxOpen,
} from '../../usage/limit-requests/limit-requests.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, noteForeignRead, recordForeignRead, recordIntent } from '../http/audit.ts'
import { callerOf, requireToken } from '../http/authenticate-api.ts'
import { requirePlainText } from '../http/body.ts'
import { hasMoreField, pageQuery, readPage } from '../http/page.ts'
import { objects, optional, responses, string, timestamp } from '../http/schema.ts'
import { withoutEmpty } from '../http/without-empty.ts'
import { orUnsure } from '../keys/propagation.ts'
import {
  currencyOf,
  currencySchema,
  figureSchema,
  nameSchema,
  type OwnLimit,
} from '../usage/limit-state.ts'
import { limitsOfCaller } from '../usage/limits.ts'
import {
  limitAuditTarget,
  limitIdentityFields,
  limitOriginOf,
  readLimitFigure,
  readRequestedUntil,
  requireEnforcedLimit,
  requireHigherLimit,
  toLimitIdentityJson,
  wantedLimitFields,
} from './wanted-limit.ts'

const requestFields = {
  id: { type: 'string' },
  user: string('The user who requests the increase.'),
  ...limitIdentityFields,
  until: timestamp,
  reason: { type: 'string' },
  createdAt: timestamp,
  state: string('State of the request.', { enum: ['open', 'approved', 'denied'] }),
  decidedBy: optional({ type: 'string' }),
  decidedAt: optional(timestamp),
  decisionReason: optional(string('Why it was denied.')),
  increaseId: optional(string('The id of the increase, if the request was approved.')),
  grantedLimit: optional({
    ...figureSchema,
    description: 'The approved limit; grantedUntil likewise.',
  }),
  grantedUntil: optional(timestamp),
} as const

/** The fields of a response with one request. */
export const limitRequestFields = { ...requestFields, currency: currencySchema } as const

const route = { tags: ['Usage'], security: [{ identityToken: [] }] } as const

const createSchema = {
  ...route,
  operationId: 'createLimitRequest',
  summary: 'Request an increase of a limit',
  description: `With an identity token, for a limit that GET /v1/limits shows you. An administrator approves or denies it; at most ${maxOpen} are open at a time, and an undecided one expires at its until.`,
  body: {
    title: 'NewLimitRequest',
    type: 'object',
    additionalProperties: false,
    required: ['name', 'limit', 'until', 'reason'],
    properties: {
      ...wantedLimitFields,
      whom: {
        ...nameSchema,
        description:
          'As in GET /v1/limits; required if several counters of the limit apply to you, such as one of each subscription.',
      },
    },
  },
  response: responses(
    'The request, which is open.',
    [400, 404, 413],
    'LimitRequest',
    limitRequestFields,
  ),
} as const

const listSchema = {
  ...route,
  operationId: 'listLimitRequests',
  summary: 'List limit requests',
  description: `Lists your own requests (needs an identity token): open ones, and those decided in the last ${listedDays} days, the latest first.`,
  querystring: {
    type: 'object',
    properties: {
      all: {
        type: 'string',
        enum: ['true', 'false'],
        description: 'For administrators: list the open requests of all users, the oldest first.',
      },
      ...pageQuery,
    },
  },
  response: responses('A page of limit requests.', [400], 'LimitRequestList', {
    object: { type: 'string', const: 'list' },
    data: objects('ListedLimitRequest', requestFields),
    currency: currencySchema,
    has_more: hasMoreField,
  }),
} as const

/** The response. */
export type LimitRequestList = FromSchema<(typeof listSchema.response)[200]>

const unsure =
  'The key store did not respond: it may or may not have been recorded. GET /v1/limit-requests lists your requests.'

/** Adds the routes. */
export function limitRequestRoutes(app: Api, deps: ExternalDeps): void {
  const { snapshot, clock, isAdmin, limitRequests } = deps

  const creation = { schema: createSchema, config: { audit: 'limit_request.create' } } as const
  app.post('/v1/limit-requests', creation, async (request) => {
    const caller = callerOf(request)
    requireToken(caller, 'request increases of limits')
    const { body: asked } = request
    for (const field of ['subscription', 'model', 'name', 'whom', 'reason'] as const)
      requirePlainText(field, asked[field])
    const { user } = caller
    const target = limitAuditTarget({ ...asked, user })
    addToOutcome(request, target)
    const now = clock()
    const until = readRequestedUntil(asked.until, now)
    const origin = limitOriginOf(asked)
    const found = limitsOfCaller(caller, asked, snapshot())
    const own = choose(
      found.filter(({ limit }) => limit.origin === origin),
      asked.whom,
    )
    requireEnforcedLimit(own)
    const { limit, counter } = own
    const higher = readLimitFigure(limit.kind, asked.limit)
    // Figures that callers may not see are compared when an administrator approves.
    if (showsFigures(limit)) requireHigherLimit(higher, limit)
    await recordIntent(request, target)
    const { reason } = asked
    const added = await orUnsure(
      limitRequests.add({
        ...{ user, counter: counter.key, per: limit.scope, limit: higher },
        ...{ until, reason, createdAt: now },
      }),
      unsure,
    )
    if (added === undefined)
      throw invalidRequest(`You have ${maxOpen} open requests; wait until one is decided.`)
    return toLimitRequestJson(added, deps)
  })
  const listing = { schema: listSchema, config: { audit: 'limit_request.read' } } as const
  app.get('/v1/limit-requests', listing, async (request) => {
    const caller = callerOf(request)
    const { all, ...paging } = request.query
    const isAll = all === 'true'
    if (isAll) {
      noteForeignRead(request, {})
      if (!(await isAdmin(caller))) {
        const message = "all is for administrators: it lists others' requests."
        throw new ServiceError('admin_required', { message })
      }
    }
    requireToken(caller, 'list limit requests')
    const { limit, offset } = readPage(paging)
    const page = { limit: limit + 1, offset }
    const found = await limitRequests.list(isAll ? null : caller.user, clock(), page)
    const data = found.slice(0, limit).map(toListedRequestJson)
    await recordForeignRead(request, data.length)
    const currency = currencyOf(data, deps.billingCurrency)
    return { object: 'list', data, ...currency, has_more: found.length > limit }
  })
}

/** The same whether or not there is such a limit. */
const foreign =
  'You have no limit of this name there; GET /v1/limits lists the subscription and model of each of yours. Without a subscription or a model, the limit is looked up in the installation.'

/** The counter on which the caller draws. */
function choose(found: readonly OwnLimit[], whom: string | undefined): OwnLimit {
  const [first, another] =
    whom === undefined
      ? found
      : found.filter(({ limit, counter }) => sharerOfCounter(limit, counter) === whom)
  if (first === undefined) throw new ServiceError('not_found', { message: foreign })
  if (another === undefined) return first
  throw invalidRequest('whom is needed: several counters of the limit apply to you.')
}

/** A single request in a response, with the currency. */
export function toLimitRequestJson(
  request: LimitRequest,
  { billingCurrency }: Pick<ExternalDeps, 'billingCurrency'>,
) {
  const shown = toListedRequestJson(request)
  return { ...shown, ...currencyOf([shown], billingCurrency) }
}

/** A request in a list. */
export function toListedRequestJson(request: LimitRequest) {
  const { id, user, counter, per, limit, until, reason, createdAt, state, increaseId } = request
  const { decidedBy, decidedAt, decisionReason, grantedLimit, grantedUntil } = request
  const meant = toLimitIdentityJson({ counter, per, limit })
  return {
    id,
    ...meant,
    ...{ user, until: toEndTimestamp(until), reason, createdAt: toTimestamp(createdAt), state },
    ...withoutEmpty({ decidedBy, decisionReason, increaseId }),
    ...(decidedAt !== null && { decidedAt: toTimestamp(decidedAt) }),
    ...(grantedLimit !== null && { grantedLimit: toAmount(meant, grantedLimit) }),
    ...(grantedUntil !== null && { grantedUntil: toEndTimestamp(grantedUntil) }),
  }
}
