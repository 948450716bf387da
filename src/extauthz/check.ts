/** `envoy.service.auth.v3.Authorization/Check`: the request path, top to bottom. */

import type { AccessRequest } from '../decide/access-request.ts'
import { authorize } from '../decide/decide.ts'
import type { Decision, Denial } from '../decide/decision.ts'
import { modelsListingName, modelsWithoutAccess, namedModelKey } from '../decide/name-lookup.ts'
import { refusalReason } from '../decide/refusal-message.ts'
import { refuseAddress } from '../decide/steps/address.ts'
import { refuseCaller } from '../decide/steps/credential.ts'
import { ServiceError } from '../formats/errors.ts'
import { isTraceSampled, lastHeaderValue } from '../formats/headers.ts'
import { type Authenticate, credentialOf, hasNoCredential } from '../identity/authenticate.ts'
import type { ListingSeal } from '../identity/listing-seal.ts'
import type { Caller } from '../identity/rules/caller.ts'
import { capsOf } from '../keys/rules/caps-of-caller.ts'
import type { Snapshot } from '../models/rules/snapshot.ts'
import { dialectOf, refusalStatus } from '../operations/dialect.ts'
import { isListing, type PathRules } from '../operations/operations.ts'
import { parseTarget, type RequestTarget } from '../operations/request-target.ts'
import { laneOf } from '../table/rules/lane.ts'
import { missReason } from '../table/rules/miss-rules.ts'
import { createTemplates } from './allow-template.ts'
import { type CheckCall, type LimitEnforcer, thenOrNow } from './check-limits.ts'
import { type CheckRequest, readCheckRequest } from './check-request.ts'
import {
  authenticatedResponse,
  type LinedRequest,
  tagSpan,
  toCheckResponse,
  unreadResponse,
} from './check-response.ts'
import type { RefusedCheck } from './refused-check.ts'
import { type AdmittingTable, type CheckedRequest, createTableOffer } from './table-offer.ts'

export interface CheckDeps extends ReadingDeps {
  readonly authenticate: Authenticate
  readonly snapshot: () => Snapshot
  readonly paths: PathRules
  readonly limits: LimitEnforcer
  /** The number of proxies in front of the gateway (GATEWAY_TRUSTED_HOPS). */
  readonly trustedHops?: number
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /**
   * Called once for each decision, with the model that the request names, if it exists, and the call that the decision
   * answers.
   */
  readonly onDecided?: (
    decision: Decision,
    model: string | undefined,
    call: CheckCall | undefined,
  ) => void
  /** Called once for each refusal. */
  readonly onRefused?: (refused: RefusedCheck) => void
  /** The table to which grants are offered; without it, the gateway asks for each request. */
  readonly table?: AdmittingTable | undefined
  /** Called once for each miss, with the reason (table/rules/miss-rules.ts). */
  readonly onMissed?: (reason: string) => void
  /** Called for internal errors, whose details the caller does not see. */
  readonly onFault: (error: unknown) => void
}

/** How the request is read. */
interface ReadingDeps {
  /** Whether identity tokens allow inference; false by default. */
  readonly tokensOpen?: boolean
  /** Opens the header of the service's own lists of models; without it none is trusted. */
  readonly openListing?: ListingSeal['open']
}

/** A request during its decision. */
interface CheckContext extends CheckedRequest {
  /** Undefined if its path leads to no model. */
  readonly target: RequestTarget | undefined
  readonly call: CheckCall | undefined
}

/** Handles one CheckRequest; returns without a promise if nothing must be fetched. */
export type Check = (
  bytes: Buffer,
  traceparent?: string,
  call?: CheckCall,
) => Buffer | Promise<Buffer>

/**
 * Check as a function from bytes to bytes. If the key and its counters are cached, it awaits
 * nothing. It throws only for bytes that are not a CheckRequest; every other failure is a denial.
 */
export function createCheck(deps: CheckDeps): Check {
  const { authenticate, snapshot, limits, paths, tokensOpen, trustedHops, clock } = deps
  const { table, onDecided = () => {}, onRefused = () => {}, onMissed = () => {} } = deps
  const admit = table && createTableOffer({ table, paths, snapshot })
  const templateOf = createTemplates()

  return function check(bytes, traceparent, call) {
    const request = readCheckRequest(bytes, trustedHops)
    const [target, now, mark = 0] = [parseTarget(request.path), clock(), table?.mark]
    const credential = credentialOf(request)
    const context = { request, credential, target, now, traceparent, call, mark }
    try {
      const caller = authenticate(credential, now, request.source)
      const response = thenOrNow(caller, (known) => proceed(context, known))
      return response instanceof Promise
        ? response.catch((error) => fail(context, error))
        : response
    } catch (error) {
      return fail(context, error)
    }
  }

  function proceed(context: CheckContext, caller: Caller | null): Buffer | Promise<Buffer> {
    const { request, target, now, call } = context
    if (request.authenticateOnly) {
      // Lets the gateway read the body, unless the caller is refused.
      const refusal =
        refuseCaller(caller, tokensOpen) ??
        refuseAddress(caller, addressOf(request, undefined, caller, now, deps))
      return refusal === undefined ? authenticatedResponse : respond(context, caller, refusal)
    }
    if (target === undefined) return respond(context, caller, { allowed: false, code: 'not_found' })
    const asked = toAccess(request, target, caller, now, deps)
    const decision = authorize(asked, snapshot(), paths)
    if (!decision.allowed) return respond(context, caller, decision)
    const limited = limits(decision, asked, now, call)
    return thenOrNow(limited, (enforced) => respond(context, caller, enforced))
  }

  function respond(context: CheckContext, caller: Caller | null, decided: Decision): Buffer {
    if (decided.allowed && decided.isUnread) return unreadResponse
    const { request, credential, target, now, traceparent, mark } = context
    const { subscription } = request
    const decision = decided.allowed ? decided : withCredentialDetail(decided, request)
    const dialect = dialectOf(target?.operation)
    const key = caller?.by === 'key' ? caller : undefined
    const lined = decision.allowed ? linedAs(request, now, table && laneOf(decision)) : undefined
    const plain = toCheckResponse(decision, now, dialect, key, templateOf, lined)
    const response = isTraceSampled(traceparent)
      ? tagSpan(plain, decision, { caller, model: target?.modelKey ?? request.model, subscription })
      : plain
    const model = modelOf(decision, caller, request, target)
    const refused = decision.allowed
      ? undefined
      : toRefusedCheck(decision, caller, context, snapshot)
    const rule =
      decision.allowed && key && target
        ? admit?.({ grant: decision, key, credential, request, target, now, traceparent, mark })
        : undefined
    // Last: a decision that cannot be answered is refused, and must be neither published nor counted.
    onDecided(decision, model, context.call)
    if (refused !== undefined) onRefused(refused)
    onMissed(missReason(request.miss, rule))
    return response
  }

  function fail(context: CheckContext, error: unknown): Buffer {
    context.call?.takeBack?.()
    return respond(context, null, toRefusal(error))
  }

  function modelOf(
    decision: Decision,
    caller: Caller | null,
    request: CheckRequest,
    target: RequestTarget | undefined,
  ): string | undefined {
    if (decision.allowed) return decision.model.key
    // The internal error may be that there is no snapshot.
    if (decision.code === 'internal') return undefined
    return target && namedModelKey(namingOf(caller, request, target), snapshot())
  }

  function toRefusal(error: unknown): Decision {
    const known = error instanceof ServiceError
    if (!known || error.cause !== undefined) deps.onFault(error)
    if (!known) return { allowed: false, code: 'internal' }
    const { code, message: reason } = error
    if (code !== 'credential_invalid') return { allowed: false, code }
    return { allowed: false, code, detail: { about: 'credential', reason } }
  }
}

function toAccess(
  request: CheckRequest,
  target: RequestTarget,
  caller: Caller | null,
  now: number,
  deps: ReadingDeps,
): AccessRequest {
  const { method, model, bodyProblem, subscription, requestId, size, isUnread } = request
  return {
    caller,
    target,
    method,
    bodyModel: model,
    bodyProblem,
    requestedSubscription: lastHeaderValue(subscription),
    tokensOpen: deps.tokensOpen,
    address: addressOf(request, target, caller, now, deps),
    requestId,
    size,
    isUnread,
  }
}

/** Read from the message only for a key that is bound to addresses. */
function addressOf(
  { method, source, listing, authorization }: CheckRequest,
  target: RequestTarget | undefined,
  caller: Caller | null,
  now: number,
  { openListing }: ReadingDeps,
): AccessRequest['address'] {
  if (caller === null || capsOf(caller)?.networks === undefined) return undefined
  // The service itself requests a list of models, on behalf of a caller that it names.
  const sealed = target && isListing(target.operation, method) ? listing() : undefined
  const listedFor = sealed && authorization && openListing?.(sealed, authorization, now)
  return (listedFor || source()) ?? null
}

/** The parts of a request that name its model. */
function namingOf(
  caller: Caller | null,
  { model, subscription }: CheckRequest,
  target: RequestTarget,
): Parameters<typeof modelsWithoutAccess>[0] {
  return { caller, target, bodyModel: model, requestedSubscription: lastHeaderValue(subscription) }
}

function toRefusedCheck(
  denial: Denial,
  caller: Caller | null,
  { request, target, now, traceparent }: CheckContext,
  snapshot: () => Snapshot,
): RefusedCheck {
  const { subscription, source, requestId, method, path, model: bodyModel } = request
  const { code } = denial
  const naming = target && namingOf(caller, request, target)
  return {
    code,
    denial,
    now,
    status: refusalStatus(dialectOf(target?.operation), code),
    reason: refusalReason(
      denial,
      () => (naming ? modelsWithoutAccess(naming, snapshot()) : []),
      () => (naming ? modelsListingName(naming, snapshot()) : []),
    ),
    caller,
    model: target?.modelKey ?? bodyModel,
    bodyModel,
    method,
    path,
    subscription,
    source,
    requestId,
    traceparent,
  }
}

/** A response is identified by the id of its request: without one it has no line. */
function linedAs(
  { requestId: id, startedAt = 0 }: CheckRequest,
  now: number,
  lane: string | undefined,
): LinedRequest | undefined {
  return id === undefined || id === '' ? undefined : { id, startedAt: startedAt || now, lane }
}

/** A caller that sent a credential learns why it is refused; others learn only that one is required. */
function withCredentialDetail(denial: Denial, request: CheckRequest): Denial {
  if (denial.code !== 'credential_invalid' || denial.detail !== undefined) return denial
  if (hasNoCredential(request)) return denial
  return { ...denial, detail: { about: 'credential', reason: undefined } }
}
