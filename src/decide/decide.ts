/**
 * Decides one model request. The order of the checks determines which error a caller sees:
 * credential, model, access, subscription, limits.
 *
 * `decide` takes two steps, because the counters are read in between: `authorize` returns what
 * would be counted, `enforceLimits` checks the limits.
 */

import type { ErrorCode } from '../formats/errors.ts'
import type { Caller } from '../identity/rules/caller.ts'
import { capsOf, isElsewhere, leavesOut } from '../keys/rules/compiled-caps.ts'
import type { AdmissionRules } from '../kinds/resources.ts'
import {
  nameAtServer,
  publishedModels,
  readPublishedName,
} from '../models/rules/published-names.ts'
import type { CompiledSubscription, Model, Opened, Snapshot } from '../models/rules/snapshot.ts'
import { foundFields, refuseFields } from '../operations/body-fields.ts'
import {
  isListing,
  isMetered,
  isMeteredIfReported,
  isNamedByPath,
  isUncounted,
  type Refusal as OperationRefusal,
  type PathRules,
  refuseOperation,
  refuseSpelling,
} from '../operations/operations.ts'
import { refuseStored, unreadFields } from '../operations/stored-paths.ts'
import type { Target } from '../operations/target.ts'
import {
  type CountedLimit,
  type Counter,
  type CounterState,
  counterOf,
  isTaken,
  type LimitState,
  limitStates,
  spentUntil,
} from '../ratelimit/rules/counter.ts'
import type { Sized } from '../ratelimit/rules/estimates/estimator.ts'
import type { Estimate } from '../ratelimit/rules/unreported.ts'
import { mayCall, mayUse } from './access.ts'
import { refuseAnswers, takesOneAnswer } from './answers.ts'
import { bestPaying, isHealthy, type Selection, type SelectionError, select } from './selection.ts'
import { owningGroup } from './usage-labels.ts'

/** One request at the gateway, with everything that the decision needs. */
export interface AccessRequest {
  /** null: no credential, or an invalid one. */
  readonly caller: Caller | null
  readonly target: Target
  /** The HTTP method. */
  readonly method: string
  /** The model in the body, if the gateway has read it before Check: on shared paths, and when it asks again. */
  readonly bodyModel: string | undefined
  /** What is wrong with the body, or fields that may be (body-fields.ts), if the gateway has read it before Check. */
  readonly bodyProblem?: string | undefined
  /** The client's `x-maas-subscription`; used only for identity tokens. */
  readonly requestedSubscription: string | undefined
  /** Whether identity tokens allow inference too. */
  readonly tokensOpen?: boolean | undefined
  /**
   * The client's address, read only for a key that is bound to addresses; undefined: that is not
   * checked.
   */
  readonly source?: (() => string | undefined) | undefined
  /** The gateway's id of the request, under which it holds room. */
  readonly requestId?: string | undefined
  /** Its size; read to hold room for it, and where only one answer is counted. */
  readonly size?: (() => RequestSize) | undefined
  /** Whether the gateway has not read the body yet, and can ask again when it has. */
  readonly isUnread?: boolean | undefined
  /** Calls `undo` if the gateway leaves without having read the decision, because its client has gone. */
  readonly call?: { whenReset(undo: () => void): void } | undefined
}

/** The size of a request, as the gateway has read it. */
export interface RequestSize extends Sized {
  /** Why it cannot be known: the body may say another maximum, or number of answers, than was read. */
  readonly problem?: string | undefined
}

/** The room that a request holds until its response is counted. */
export interface HeldRoom extends Sized {
  /** The output tokens that it may have; Infinity: no ceiling was set. */
  readonly cap: number
  /** Milliseconds since the epoch; 0: it holds nothing. */
  readonly admittedAt: number
  /** What is charged if the model reports less; undefined: what it reports. */
  readonly estimate: Estimate | undefined
}

export interface Grant {
  readonly allowed: true
  readonly caller: Caller
  readonly model: Model
  readonly cluster: string
  readonly subscription: string
  /** The limits to enforce, those of the key last; empty on paths without limits. */
  readonly limits: readonly CountedLimit[]
  /** Whether one of them is taken from before the request is allowed. */
  readonly takes?: boolean
  /** Their states; empty until they are read. */
  readonly states: readonly LimitState[]
  /** If its subscription reserves: by which rules. */
  readonly admission?: AdmissionRules | undefined
  readonly held?: HeldRoom
  /** Whether the gateway must ask again with the size of the body: nothing is held yet. */
  readonly isUnread?: boolean
  /** Whether the response will be counted. */
  readonly metered: boolean
  /** Whether it will be if it reports usage, and else is nothing to be estimated. It holds no room. */
  readonly meteredIfReported?: boolean
  /** Whether it uses tokens that are not counted. */
  readonly uncounted: boolean
  /** Whether it only lists models, which no limit applies to. */
  readonly listing: boolean
  /**
   * The caller's group that owns the subscription, empty if none does; undefined if it is not
   * needed.
   */
  readonly owningGroup: string | undefined
  /** Whom the response is charged to (payer.ts), if the subscription says so. */
  readonly payer: string | undefined
  /**
   * If the path names the model, and the body has not been read: the names that it may use, separated by tabs, if
   * known.
   */
  readonly bodyNames: string | undefined
  /** If the body's name must be replaced for this request: the one that the server knows. */
  readonly sentName: string | undefined
  /** Path and query for the model's server. */
  readonly upstreamPath: string
}

/** Details of a refusal that its code does not express. */
export type DenialDetail =
  | OperationRefusal['detail']
  /** A credential was sent and is invalid, with the reason if the caller may know it. */
  | { readonly about: 'credential'; readonly reason: string | undefined }
  /** An identity token was sent where an API key is required. */
  | { readonly about: 'identity_token' }
  /** Several subscriptions of the caller match, and the request names none. */
  | { readonly about: 'several' }
  /** For this operation only the path can name the model. */
  | { readonly about: 'path_needed'; readonly operation: string }
  /** What is wrong with the body; undefined: it names no model. */
  | { readonly about: 'body'; readonly problem: string | undefined }
  /** The model that was asked for, as the request wrote it. */
  | { readonly about: 'model'; readonly name: string }
  /** The same, and only the key's own models leave it out. */
  | { readonly about: 'key_models'; readonly name: string }
  /** The address that the key may not be used from, if it is known. */
  | { readonly about: 'address'; readonly address: string | undefined }
  /** The paths of all models that the name may mean. */
  | { readonly about: 'ambiguous'; readonly paths: readonly string[] }
  /**
   * Which subscription would pay and does not, and another one of the caller's own that would; never for a key
   * with caps.
   */
  | {
      readonly about: 'subscription'
      readonly error: Exclude<SelectionError, 'multiple_subscriptions'>
      /** The key's subscription, or that of the request's header; undefined: neither names one. */
      readonly named:
        | { readonly by: 'key'; readonly name: string }
        | { readonly by: 'token' }
        | undefined
      readonly other: string | undefined
    }

export interface Denial {
  readonly allowed: false
  readonly code: ErrorCode
  /** Details beyond the code. */
  readonly detail?: DenialDetail
  /** The selection's error code, if the selection refused. */
  readonly selection?: SelectionError
  /** Milliseconds since the epoch; if a limit refused, like the following. */
  readonly retryAt?: number
  /** The states of the limits. */
  readonly states?: readonly LimitState[]
  /** Whether what is left is only held, not used. */
  readonly isBusy?: boolean
  /** If what is left is not enough, the fewest output tokens that the request can be given. */
  readonly needed?: number
  /** The grant without the limit. */
  readonly grant?: Grant
}

export type Decision = Grant | Denial

/** What may refuse a request, in the order in which it is asked; `address` and `cap` only if the key has them. */
export type Step =
  | 'credential'
  | 'address'
  | 'path'
  | 'model'
  | 'access'
  | 'cap'
  | 'operation'
  | 'subscription'
  | 'backend'
  | 'limits'

/**
 * Called as a decision reaches each step, with what the steps before have found; each step but the
 * last has let the request pass.
 */
export type OnStep = (step: Step, found?: Model | CompiledSubscription) => void

/** What a decision needs beside the request. */
export interface World {
  readonly snapshot: Snapshot
  readonly rules: PathRules
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The windows of counters at this instant (ratelimit/counters.ts). */
  readonly read: (counters: readonly Counter[], now: number) => Windows | Promise<Windows>
  /** Enforces the limits of a grant whose subscription reserves, or counts requests (reserve.ts). */
  readonly reserve?: Reserve | undefined
  /** Adds to an admitted request what is charged if its model reports less; undefined: nothing. */
  readonly appraise?: ((grant: Grant, request: AccessRequest) => Grant) | undefined
}

/** Holds room for a grant, or refuses it. */
export type Reserve = (
  grant: Grant,
  request: AccessRequest,
  now: number,
) => Decision | Promise<Decision>

type Windows = readonly CounterState[]

/** The whole decision. Returns without a promise if the counters are known. */
export function decide(
  request: AccessRequest,
  { snapshot, rules, now, read, reserve, appraise }: World,
  onStep?: OnStep,
): Decision | Promise<Decision> {
  const decision = authorize(request, snapshot, rules, onStep)
  if (!decision.allowed || decision.limits.length === 0) return decision
  onStep?.('limits')
  if (decision.isUnread) return decideUnread(decision, read, now)
  if (reserve !== undefined && (decision.takes || reservesTokens(decision))) {
    const reserved = reserve(decision, request, now)
    return reserved instanceof Promise
      ? reserved.then((late) => appraised(late, request, appraise))
      : appraised(reserved, request, appraise)
  }
  const { user } = decision.caller
  const windows = read(
    decision.limits.map((limit) => counterOf(limit, user)),
    now,
  )
  return windows instanceof Promise
    ? windows.then((late) => appraised(enforceLimits(decision, late, now), request, appraise))
    : appraised(enforceLimits(decision, windows, now), request, appraise)
}

/** With what is charged if its model reports less, unless that is known already. */
function appraised(
  decided: Decision,
  request: AccessRequest,
  appraise: World['appraise'],
): Decision {
  if (appraise === undefined || !decided.allowed || !decided.metered) return decided
  if (decided.isUnread) return decided
  return decided.held?.estimate === undefined ? appraise(decided, request) : decided
}

/** Whether the request holds tokens; what is not counted needs no room. */
export function reservesTokens({ admission, metered }: Grant): boolean {
  return admission !== undefined && metered
}

/** The refusal of a caller without a credential that allows inference; undefined for all others. */
export function refuseCaller(caller: Caller | null, tokensOpen = false): Denial | undefined {
  if (caller === null) return deny('credential_invalid')
  if (caller.by === 'key' || tokensOpen) return undefined
  return deny('credential_invalid', { about: 'identity_token' })
}

/** The refusal of a key that is used from elsewhere; undefined for all others. */
export function refuseAddress(
  caller: Caller | null,
  source: AccessRequest['source'],
): Denial | undefined {
  if (caller === null || source === undefined || !capsOf(caller)?.networks) return undefined
  const address = source()
  return isElsewhere(caller, address)
    ? deny('address_not_allowed', { about: 'address', address })
    : undefined
}

/** Everything except the counters. */
export function authorize(
  request: AccessRequest,
  snapshot: Snapshot,
  rules: PathRules,
  onStep?: OnStep,
): Decision {
  onStep?.('credential')
  const { caller, target, method } = request
  const { operation, query } = target
  const listing = isListing(operation, method)
  if (caller === null) return deny('credential_invalid')
  const keyless = refuseCaller(caller, listing || request.tokensOpen)
  if (keyless !== undefined) return keyless
  const caps = capsOf(caller)
  if (caps?.networks !== undefined) {
    onStep?.('address')
    const elsewhere = refuseAddress(caller, request.source)
    if (elsewhere !== undefined) return elsewhere
  }
  onStep?.('path')
  const misspelled = refuseSpelling(operation, query, rules)
  if (misspelled !== undefined) return { allowed: false, ...misspelled }

  onStep?.('model')
  const model = findModel(request, snapshot, caller)
  if ('allowed' in model) return model
  onStep?.('access', model)
  if (!mayUse(caller, model)) return denyModel(request)
  if (caps?.models !== undefined) {
    onStep?.('cap')
    if (leavesOut(caller, model.key)) return denyModel(request, 'key_models')
  }
  onStep?.('operation')
  const closed = refuseHere(model, operation, method, rules)
  if (closed !== undefined) return { allowed: false, ...closed }
  const isOne = takesOneAnswer(model, operation, rules, snapshot)
  const problem = refuseBody(request, model, rules, isOne)
  if (problem !== undefined) return deny('invalid_body', { about: 'body', problem })
  // Not before the gateway has read the body, whatever a client says.
  const isRead = target.modelKey !== undefined && !request.isUnread
  const name = isRead ? request.bodyModel : undefined
  if (name !== undefined && !mayName(name, model)) {
    return deny('model_not_allowed', { about: 'model', name })
  }

  onStep?.('subscription')
  const subscription = selectPaying(snapshot, request, caller, model)
  if ('error' in subscription) {
    return denySubscription(subscription.error, request, caller, model, snapshot)
  }
  onStep?.('backend', subscription)
  if (model.cluster === undefined) return deny('model_unavailable')
  const limits = subscription.limits.get(model.key) as readonly CountedLimit[]
  return {
    allowed: true,
    caller,
    model,
    cluster: model.cluster,
    subscription: subscription.name,
    limits: listing
      ? []
      : caps === undefined || caps.limits.length === 0
        ? limits
        : limits.concat(caps.limits),
    takes: !listing && takesFrom(limits),
    states: [],
    admission: subscription.admission,
    ...(isOne && request.isUnread && { isUnread: true }),
    metered: isMetered(operation, rules),
    meteredIfReported: isMeteredIfReported(operation, rules),
    uncounted: isUncounted(operation, method, rules),
    listing,
    owningGroup: snapshot.tenant?.telemetry?.captureGroup
      ? owningGroup(subscription.resource, caller.groups)
      : undefined,
    payer: subscription.payers.get(model.key),
    bodyNames: target.modelKey === undefined || name !== undefined ? undefined : model.bodyNames,
    sentName: sentName(request, model, snapshot),
    upstreamPath: model.basePath + operation + query,
  }
}

/**
 * The grant with the states of its limits, or a refusal if one is reached. `counters` are the
 * states of `grant.limits`, in the same order.
 */
export function enforceLimits(
  grant: Grant,
  counters: readonly CounterState[],
  now: number,
): Decision {
  const states = limitStates(grant.limits, counters, now)
  const retryAt = spentUntil(states)
  if (retryAt === undefined) return { ...grant, states }
  return { allowed: false, code: 'token_limit_exceeded', retryAt, states, grant }
}

/** The decision before the body has been read: what is used up refuses, all else is decided when it has been. */
export function decideUnread(
  grant: Grant,
  read: World['read'],
  now: number,
): Decision | Promise<Decision> {
  const limits = grant.limits.filter((limit) => !isTaken(limit))
  const conclude = (used: Windows): Decision => {
    const decision = enforceLimits({ ...grant, limits }, used, now)
    return decision.allowed ? { ...decision, isUnread: true } : { ...decision, grant }
  }
  const { user } = grant.caller
  const used = read(
    limits.map((limit) => counterOf(limit, user)),
    now,
  )
  return used instanceof Promise ? used.then(conclude) : conclude(used)
}

/** The refusal of an operation that is closed for every caller of the model. */
function refuseHere(
  { resource }: Model,
  operation: string,
  method: string,
  rules: PathRules,
): OperationRefusal | undefined {
  const { server, state } = resource
  const closed = refuseOperation(operation, method, rules, server.allPaths)
  if (closed !== undefined || state === 'shared') return closed
  return refuseStored(operation, method, server.allPaths)
}

/** What is wrong with the body. On shared paths one that cannot be read is refused before the model is looked up. */
function refuseBody(
  { target: { operation }, method, bodyProblem, size, isUnread }: AccessRequest,
  { resource }: Model,
  rules: PathRules,
  isOne: boolean,
): string | undefined {
  const fields = foundFields(bodyProblem)
  if (fields === undefined && bodyProblem !== undefined) return bodyProblem
  const named = fields ?? unreadFields(operation, method)
  const problem = refuseFields(named, resource, isMetered(operation, rules))
  if (problem !== undefined || !isOne || isUnread || size === undefined) return problem
  return refuseAnswers(size())
}

/** Whether a body may use this name on the model's own path: one of its names, if they are known. */
function mayName(name: string, { bodyNames }: Model): boolean {
  if (bodyNames === undefined) return true
  return !name.includes('\t') && `\t${bodyNames}\t`.includes(`\t${name}\t`)
}

/** Those that are taken from follow those of tokens. */
function takesFrom(limits: readonly CountedLimit[]): boolean {
  const last = limits[limits.length - 1]
  return last !== undefined && isTaken(last)
}

function deny(code: ErrorCode, detail?: DenialDetail): Denial {
  return detail === undefined ? { allowed: false, code } : { allowed: false, code, detail }
}

/** The same for an unknown model and for one that the caller may not use. */
function denyModel(
  { target, bodyModel }: AccessRequest,
  about: 'model' | 'key_models' = 'model',
): Denial {
  const name = target.modelKey ?? bodyModel
  return deny('model_not_allowed', name === undefined ? undefined : { about, name })
}

/** On the path of a model its name in the body stays as it is. */
function sentName(
  { target, bodyModel }: AccessRequest,
  model: Model,
  snapshot: Snapshot,
): string | undefined {
  if (target.modelKey !== undefined || bodyModel === undefined) return undefined
  const published = readPublishedName(bodyModel)
  return published && nameAtServer(model, published, snapshot)
}

/** A key always pays with its own subscription; the header is ignored. */
function subscriptionOf(request: AccessRequest, caller: Caller): string | undefined {
  return caller.by === 'key' ? caller.subscription : request.requestedSubscription
}

/**
 * The subscription that pays for a request. One that is being deleted does not pay (contract, 8.1).
 */
function selectPaying(
  snapshot: Snapshot,
  request: AccessRequest,
  caller: Caller,
  model: Model,
): Selection {
  const selected = select(snapshot, caller, subscriptionOf(request, caller), model.key)
  if ('error' in selected || isHealthy(selected)) return selected
  return { error: 'model_unhealthy', found: selected }
}

/**
 * The header must not reveal names: for a token, foreign and unknown give the same error. Whoever holds a
 * key with caps is not told what else its owner has.
 */
function denySubscription(
  error: SelectionError,
  request: AccessRequest,
  caller: Caller,
  model: Model,
  snapshot: Snapshot,
): Denial {
  const code = 'subscription_not_allowed'
  if (error === 'multiple_subscriptions') {
    return { allowed: false, code, selection: error, detail: { about: 'several' } }
  }
  const name = subscriptionOf(request, caller)
  const hidden = error === 'not_found' && name !== undefined && caller.by === 'token'
  const selection = hidden ? 'access_denied' : error
  const refusal = { allowed: false, code, selection } as const
  if (capsOf(caller) !== undefined) return refusal
  const named =
    caller.by === 'key'
      ? { by: caller.by, name: caller.subscription }
      : name === undefined
        ? undefined
        : { by: caller.by }
  const other = bestPaying(snapshot, caller, model.key)?.name
  return { ...refusal, detail: { about: 'subscription', error: selection, named, other } }
}

/** The requested model, by path or by body. Unknown and forbidden models give the same error. */
function findModel(request: AccessRequest, snapshot: Snapshot, caller: Caller): Model | Denial {
  const { target, bodyModel, bodyProblem } = request
  if (target.modelKey !== undefined) {
    return snapshot.models.get(target.modelKey) ?? denyModel(request)
  }
  const { operation } = target
  if (isNamedByPath(operation)) {
    return deny('model_path_needed', { about: 'path_needed', operation })
  }
  const problem = foundFields(bodyProblem) === undefined ? bodyProblem : undefined
  if (problem !== undefined || bodyModel === undefined) {
    return deny('invalid_body', { about: 'body', problem })
  }
  const find = (by: Caller) => findByName(bodyModel, request, snapshot, by)
  const found = find(caller)
  if (found !== undefined || caller.by !== 'key' || !caller.caps) return found ?? denyModel(request)
  // A model that only the caps leave out is refused because of them.
  const { caps: _, ...uncapped } = caller
  return find(uncapped) ?? denyModel(request)
}

/**
 * The model that a body names. A name that a ModelRef declares is not looked up among those that
 * servers list, unless another namespace owned it before: that one's callers keep it. An id of the
 * form `publishers/…` is never looked up among other names (published-names.ts).
 */
function findByName(
  name: string,
  request: AccessRequest,
  snapshot: Snapshot,
  caller: Caller,
): Model | Denial | undefined {
  const usableOf = (models: readonly Model[]) => models.filter((each) => mayCall(caller, each))
  const published = readPublishedName(name)
  if (published !== undefined) {
    return pickCovered(usableOf(publishedModels(published, snapshot)), request, snapshot, caller)
  }

  const declared = snapshot.modelsByName.get(name) ?? none
  const served = snapshot.servedNames.get(name)
  if (served === undefined) return pickCovered(usableOf(declared), request, snapshot, caller)

  const isOwn = ({ resource }: Model) => resource.metadata.namespace === served.namespace
  const own = declared.filter(isOwn)
  const owned = usableOf(own.length > 0 ? own : served.owned)
  const others = declared.length > 0 ? declared.filter((each) => !isOwn(each)) : served.others
  const rest = usableOf(others)
  if (rest.length === 0) return pickCovered(owned, request, snapshot, caller)
  const isCovered = (model: Opened) => covers(request, snapshot, caller, model)
  const isHeld =
    own.length === 0 &&
    !owned.some(isCovered) &&
    served.held.some((each) => mayUse(caller, each) && isCovered(each))
  return isHeld ? undefined : pickCovered([...owned, ...rest], request, snapshot, caller)
}

const none: readonly Model[] = []

/** Whether the caller's subscription names the model, even if it cannot pay for it now. */
function covers(
  request: AccessRequest,
  snapshot: Snapshot,
  caller: Caller,
  model: Opened,
): boolean {
  const selected = select(snapshot, caller, subscriptionOf(request, caller), model.key)
  if (!('error' in selected)) return true
  return selected.error === 'model_unhealthy' || selected.error === 'multiple_subscriptions'
}

/**
 * The only one of several usable models, otherwise the first that the caller's subscription covers:
 * the owner's come first, and earlier ones. undefined: there is none.
 */
function pickCovered(
  models: readonly Model[],
  request: AccessRequest,
  snapshot: Snapshot,
  caller: Caller,
): Model | Denial | undefined {
  if (models.length < 2) return models[0]
  const covered = models.find((model) => covers(request, snapshot, caller, model))
  if (covered !== undefined) return covered
  const paths = models.map(({ key }) => `/${key}${request.target.operation}`).sort()
  return deny('model_ambiguous', { about: 'ambiguous', paths })
}
