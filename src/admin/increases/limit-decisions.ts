/** `POST /v1/limit-requests/{requestId}/approve` and `…/deny` (contract, 3.23), for administrators. */

import type { FastifyRequest } from 'fastify'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import { userInLines } from '../../ratelimit/rules/counter-key.ts'
import type { LimitRequest, Verdict } from '../../usage/limit-requests/limit-requests.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, recordIntent } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { type BodyOf, requirePlainText } from '../http/body.ts'
import { responses, untitledObject } from '../http/schema.ts'
import { isUuid } from '../keys/key-access.ts'
import { orUnsure, propagationSchema } from '../keys/propagation.ts'
import { limitRequestFields, toLimitRequestJson, toListedRequestJson } from './limit-requests.ts'
import {
  limitAuditTarget,
  limitsByName,
  readLimitFigure,
  readRequestedUntil,
  readUntilInSeconds,
  requireEnforcedLimit,
  requireHigherLimit,
  requireLowerLimit,
  tooManyIncreases,
  wantedLimitFields,
} from './wanted-limit.ts'

const { limit, until, reason } = wantedLimitFields

const route = {
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  params: untitledObject({ requestId: { type: 'string' } }),
} as const

const approveSchema = {
  ...route,
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
  ...route,
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

const unsure =
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
    const decided = await orUnsure(limitRequests.decide(id, verdict), unsure)
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
