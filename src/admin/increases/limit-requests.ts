/**
 * `POST` and `GET /v1/limit-requests`, and `POST /v1/limit-requests/{requestId}/approve` and `…/deny` (contract, 3.23):
 * users request a temporary increase of a limit, and administrators decide.
 */

import type { FastifyRequest } from 'fastify'
import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import { toAmount } from '../../formats/money.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/time.ts'
import { sharerOfCounter } from '../../models/rules/shared-limits.ts'
import { userInLines } from '../../ratelimit/rules/counter-key.ts'
import { showsFigures } from '../../ratelimit/rules/limit-headers.ts'
import {
  type LimitRequest,
  listedDays,
  maxOpen,
  type Verdict,
} from '../../usage/limit-requests/limit-requests.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, noteForeignRead, recordForeignRead, recordIntent } from '../http/audit.ts'
import { callerOf, requireToken } from '../http/authenticate-api.ts'
import { type BodyOf, requirePlainText } from '../http/body.ts'
import { hasMoreField, pageQuery, readPage } from '../http/page.ts'
import { objects, optional, responses, string, timestamp, untitledObject } from '../http/schema.ts'
import { withoutEmpty } from '../http/without-empty.ts'
import { isUuid } from '../keys/key-access.ts'
import { orUnsure, propagationSchema } from '../keys/propagation.ts'
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
  limitsByName,
  readLimitFigure,
  readRequestedUntil,
  readUntilInSeconds,
  requireEnforcedLimit,
  requireHigherLimit,
  requireLowerLimit,
  toLimitIdentityJson,
  tooManyIncreases,
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
const limitRequestFields = { ...requestFields, currency: currencySchema } as const

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
function toLimitRequestJson(
  request: LimitRequest,
  { billingCurrency }: Pick<ExternalDeps, 'billingCurrency'>,
) {
  const shown = toListedRequestJson(request)
  return { ...shown, ...currencyOf([shown], billingCurrency) }
}

/** A request in a list. */
function toListedRequestJson(request: LimitRequest) {
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

const { limit, until, reason } = wantedLimitFields

const decisionRoute = {
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  params: untitledObject({ requestId: { type: 'string' } }),
} as const

const approveSchema = {
  ...decisionRoute,
  operationId: 'approveLimitRequest',
  summary: 'Approve a limit request',
  description:
    'For administrators, but not for their own requests. It increases the limit, as POST /v1/admin/increases does. Repeating it changes nothing; other figures than those of the decision get 400.',
  body: {
    title: 'LimitApproval',
    type: ['object', 'null'],
    additionalProperties: false,
    properties: {
      limit: { ...limit, description: 'At most the requested limit, which is the default.' },
      until: { ...until, description: 'Not after the requested time, which is the default.' },
    },
  },
  response: responses('Approved.', [400, 404, 413], 'ApprovedLimitRequest', {
    ...limitRequestFields,
    propagation: propagationSchema,
  }),
} as const

const denySchema = {
  ...decisionRoute,
  operationId: 'denyLimitRequest',
  summary: 'Deny a limit request',
  description:
    'For administrators, but not for their own requests. Repeating it changes nothing; another reason than that of the decision gets 400.',
  body: {
    title: 'LimitDenial',
    type: ['object', 'null'],
    additionalProperties: false,
    properties: { reason },
  },
  response: responses('Denied.', [400, 404, 413], 'DeniedLimitRequest', limitRequestFields),
} as const

const unsureDecision =
  'The key store did not respond: the request may or may not have been decided. Repeat it until there is a response.'

/** Adds the routes, in a scope of administrators. */
export function limitDecisionRoutes(app: Api, deps: ExternalDeps): void {
  const { snapshot, clock, limitRequests, whenIncreased } = deps

  async function decide(
    request: FastifyRequest,
    id: string,
    state: 'approved' | 'denied',
    read: (asked: LimitRequest, now: number) => Promise<Pick<Verdict, 'reason' | 'grant'>>,
  ) {
    const { user: by } = callerOf(request)
    const decision = { ...(request.body as Omit<Decision, 'state'> | null), state }
    const now = clock()
    const asked = foundRequest(isUuid(id) ? await limitRequests.find(id, now) : undefined)
    const target = limitAuditTarget(toListedRequestJson(asked))
    addToOutcome(request, target)
    // A long name is shortened in lines, and the counter has the shortened one.
    if (userInLines(asked.user) === userInLines(by)) {
      const message = 'You cannot decide your own request; ask another administrator.'
      throw new ServiceError('admin_required', { message })
    }
    if (asked.state !== 'open') return settled(asked, decision, deps)
    const verdict = { by, at: now, ...(await read(asked, now)) }
    await recordIntent(request, target)
    const decided = await orUnsure(limitRequests.decide(id, verdict), unsureDecision)
    if (decided === 'full') throw tooManyIncreases()
    return settled(foundRequest(decided), decision, deps)
  }

  const approval = { schema: approveSchema, config: { audit: 'limit_request.approve' } } as const
  app.post('/v1/limit-requests/:requestId/approve', approval, async (request) => {
    const { requestId } = request.params
    const approved = await decide(request, requestId, 'approved', async (asked, now) => {
      const grant = readGrant(request.body ?? {}, asked, now)
      const { subscription, model, name, user } = toListedRequestJson(asked)
      const named = { subscription: subscription ?? undefined, model: model ?? undefined }
      const found = await limitsByName({ ...named, name, user }, snapshot())
      const own = found.find(({ counter }) => counter.key === asked.counter)
      if (own === undefined) {
        const message = 'The limit is no longer in force; deny the request.'
        throw new ServiceError('not_found', { message })
      }
      requireLowerLimit(own.limit, asked.limit)
      requireEnforcedLimit(own)
      requireHigherLimit(grant.limit, own.limit)
      return { grant, reason: null }
    })
    return { ...approved, propagation: await whenIncreased() }
  })
  const denial = { schema: denySchema, config: { audit: 'limit_request.deny' } } as const
  app.post('/v1/limit-requests/:requestId/deny', denial, (request) =>
    decide(request, request.params.requestId, 'denied', async () => {
      const { reason = null } = request.body ?? {}
      requirePlainText('reason', reason ?? undefined)
      return { grant: undefined, reason }
    }),
  )
}

function readGrant(
  body: NonNullable<BodyOf<typeof approveSchema.body>>,
  asked: LimitRequest,
  now: number,
) {
  const { kind } = toListedRequestJson(asked)
  const limit = body.limit === undefined ? asked.limit : readLimitFigure(kind, body.limit)
  const until = body.until === undefined ? asked.until : readRequestedUntil(body.until, now)
  if (limit > asked.limit || until > asked.until) {
    const field = limit > asked.limit ? 'limit' : 'until'
    throw invalidRequest(
      `${field} must not be beyond what was asked for; POST /v1/admin/increases gives more.`,
    )
  }
  return { limit, until }
}

function foundRequest(found: LimitRequest | undefined): LimitRequest {
  if (found !== undefined) return found
  const message = 'The request does not exist or has expired.'
  throw new ServiceError('not_found', { message })
}

/** What an administrator wants; absent fields are not compared with an earlier decision. */
interface Decision extends NonNullable<BodyOf<typeof approveSchema.body>> {
  readonly state: 'approved' | 'denied'
  readonly reason?: string
}

/** The request, if it was decided so; of two concurrent decisions the first one applies. */
function settled(
  request: LimitRequest,
  { state, limit, until, reason }: Decision,
  deps: Pick<ExternalDeps, 'billingCurrency'>,
) {
  const shown = toLimitRequestJson(request, deps)
  const { kind, grantedLimit, grantedUntil } = shown
  const isSame =
    request.state === state &&
    (limit === undefined || readLimitFigure(kind, limit) === request.grantedLimit) &&
    (until === undefined || readUntilInSeconds(until) === request.grantedUntil) &&
    (reason === undefined || reason === request.decisionReason)
  if (isSame) return shown
  const granted = request.state === 'denied' ? '' : `, up to ${grantedLimit} until ${grantedUntil}`
  throw invalidRequest(
    `The request was ${request.state} before${granted}, and a decision is final.`,
  )
}
