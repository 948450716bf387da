/**
 * Writes the audit trail of the listeners. A route that changes keys names its action; its refusals
 * and outcomes are written before the response is sent, whatever the result. Unauthenticated
 * attempts are only counted as requests and have no line.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  type AuditAction,
  type AuditActor,
  type AuditEvent,
  type AuditOutcome,
  type AuditTarget,
  actorOf,
} from '../../audit/event.ts'
import type { AuditTrail } from '../../audit/trail.ts'
import type { ErrorCode } from '../../formats/errors.ts'
import { traceIdOf } from '../../formats/headers.ts'
import { addressOf } from './trusted-proxies.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The trail's name for a request to this route. */
    readonly audit?: AuditAction
  }
  interface FastifyRequest {
    audited: Audited
    /** The code of the request's refusal, as `sendError` has it; null if there is none. */
    refusedWith: ErrorCode | null
  }
}

/** The trail's data of a request, besides the request itself. */
interface Audited {
  target: AuditTarget
  count?: number
  /** Whether the request reads another user's keys; changes are always recorded. */
  concernsOthers: boolean
  intended: boolean
  /** Its outcome has a line already. */
  recorded: boolean
  /** By default the route's own. */
  action?: AuditAction
  trail: AuditTrail
}

const reads: readonly AuditAction[] = [
  'key.read',
  'key.search',
  'key.explain',
  'usage.read',
  'counter.read',
  'increase.read',
  'limit_request.read',
]

/** Error codes after which it is unknown whether the database has executed the change. */
const unsure: ReadonlySet<ErrorCode> = new Set(['store_unavailable', 'store_slow', 'internal'])

/** Writes the outcomes of this listener's routes. */
export function auditRoutes(app: FastifyInstance, trail: AuditTrail): void {
  app.decorateRequest('audited')
  app.addHook('onRequest', async (request) => {
    request.audited = {
      target: {},
      concernsOthers: false,
      intended: false,
      recorded: false,
      trail,
    }
  })
  app.addHook('onSend', async (request, reply) => {
    const { audited, routeOptions } = request
    const { audit } = routeOptions.config
    if (audit === undefined || audited.recorded || request.caller === null) return
    if (reads.includes(audit) && !audited.concernsOthers) return
    audited.recorded = true
    await trail.note(eventOf(request, outcomeOf(request, reply), reply.statusCode))
  })
}

/** Call it right before the statement: if the trail is required, nothing is done without this line. */
export async function recordIntent(request: FastifyRequest, target: AuditTarget = {}) {
  const { audited } = request
  audited.target = target
  await audited.trail.require(eventOf(request, 'intent'))
  audited.intended = true
}

/** Adds to the outcome's line. */
export function addToOutcome(request: FastifyRequest, target: AuditTarget, count?: number): void {
  request.audited.target = { ...request.audited.target, ...target }
  if (count !== undefined) request.audited.count = count
}

/** Notes that the request reads what another user has, regardless of the result. */
export function noteForeignRead(request: FastifyRequest, target: AuditTarget): void {
  request.audited.concernsOthers = true
  addToOutcome(request, target)
}

/** Call it before such a read is answered: if the trail is required, nothing is returned without this line. */
export async function recordForeignRead(request: FastifyRequest, count?: number): Promise<void> {
  if (!request.audited.concernsOthers) return
  addToOutcome(request, {}, count)
  await request.audited.trail.require(eventOf(request, 'success', 200))
  request.audited.recorded = true
}

/** Records the request as this action instead of its route's. */
export function recordAsAction(request: FastifyRequest, action: AuditAction): void {
  request.audited.action = action
}

function eventOf(request: FastifyRequest, outcome: AuditOutcome, status?: number): AuditEvent {
  const { audited, routeOptions } = request
  return {
    action: audited.action ?? (routeOptions.config.audit as AuditAction),
    outcome,
    status,
    actor: whoAsks(request),
    target: audited.target,
    count: audited.count,
    requestId: request.id,
    traceId: traceIdOf(request.headers.traceparent),
    address: addressOf(request),
  }
}

/** The internal listener has no authenticated callers. */
function whoAsks({ caller }: FastifyRequest): AuditActor {
  return caller ? actorOf(caller) : { user: '', source: 'internal' }
}

function outcomeOf(request: FastifyRequest, { statusCode }: FastifyReply): AuditOutcome {
  const { refusedWith } = request
  if (statusCode < 400) return 'success'
  if (statusCode < 500 || refusedWith === 'loop_detected') return 'refused'
  return request.audited.intended && (refusedWith === null || unsure.has(refusedWith))
    ? 'unknown'
    : 'failed'
}
