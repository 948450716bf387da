/**
 * Decides one model request. The order of the checks is the order of the answers a caller sees:
 * who you are, which model, whether you may use it, what pays for it, what is left.
 *
 * Two steps, since what is left has to be read in between: `authorize` says what would be
 * counted, `enforceLimits` looks at what is left of it.
 */

import { mayUse } from './access.ts'
import type { Caller } from './caller.ts'
import {
  type CountedLimit,
  type CounterState,
  type LimitState,
  limitStates,
  spentUntil,
} from './counter.ts'
import type { ErrorCode } from './errors.ts'
import {
  isListing,
  isNamedByPath,
  isUncounted,
  type Refusal as OperationRefusal,
  type PathRules,
  refuseOperation,
  refuseSpelling,
} from './operations.ts'
import { isHealthy, type Selection, type SelectionError, select } from './selection.ts'
import type { Model, Snapshot } from './snapshot.ts'
import type { Target } from './target.ts'
import { owningGroup } from './usage-labels.ts'

/** One request at the gateway, as far as deciding needs it. */
export interface AccessRequest {
  /** null: no credential, or none that is believed. */
  readonly caller: Caller | null
  readonly target: Target
  /** The HTTP method. */
  readonly method: string
  /** The model that the body names; only looked at on the shared paths. */
  readonly bodyModel: string | undefined
  /** What is wrong with the body, where the gateway has read it before it asks. */
  readonly bodyProblem?: string | undefined
  /** The client's `x-maas-subscription`; only looked at for identity tokens. */
  readonly requestedSubscription: string | undefined
  /** Whether identity tokens open inference too. */
  readonly tokensOpen?: boolean | undefined
}

export interface Grant {
  readonly allowed: true
  readonly caller: Caller
  readonly model: Model
  readonly cluster: string
  readonly subscription: string
  /** What has to hold; empty on paths that no limit closes. */
  readonly limits: readonly CountedLimit[]
  /** How these stand; empty until they have been looked at. */
  readonly states: readonly LimitState[]
  /** Whether the answer will be counted. */
  readonly metered: boolean
  /** Whether it costs tokens that nobody counts. */
  readonly uncounted: boolean
  /** Whether it only lists models, which is no call that anybody limits. */
  readonly listing: boolean
  /** The caller's group that owns the subscription, empty for none; undefined: nobody asks. */
  readonly owningGroup: string | undefined
  /** Where the path named the model: what the body may call it, tabs between, if that is known. */
  readonly bodyNames: string | undefined
  /** Path and query for the model's server. */
  readonly upstreamPath: string
}

/** What a refusal is about, where its code alone does not tell. */
export type DenialDetail =
  | OperationRefusal['detail']
  /** A credential was shown and is not believed; the reason where it may be told. */
  | { readonly about: 'credential'; readonly reason: string | undefined }
  /** An identity token stands where an API key belongs. */
  | { readonly about: 'identity_token' }
  /** More than one subscription of the caller's fits, and none was named. */
  | { readonly about: 'several' }
  /** This operation's model can only be named by the path. */
  | { readonly about: 'path_needed'; readonly operation: string }
  /** What is wrong with the body; undefined: it names no model. */
  | { readonly about: 'body'; readonly problem: string | undefined }
  /** The paths of all models that are meant. */
  | { readonly about: 'ambiguous'; readonly paths: readonly string[] }

export interface Denial {
  readonly allowed: false
  readonly code: ErrorCode
  /** What there is to say beyond the code. */
  readonly detail?: DenialDetail
  /** The selection's own word, where it was the selection that refused. */
  readonly selection?: SelectionError
  /** Milliseconds since the epoch; with `token_limit_exceeded`. */
  readonly retryAt?: number
  /** With `token_limit_exceeded`: how what had to hold stands. */
  readonly states?: readonly LimitState[]
  /** With `token_limit_exceeded`: what would have been granted. */
  readonly grant?: Grant
}

export type Decision = Grant | Denial

/** The refusal of whoever shows nothing that opens inference; undefined for all others. */
export function refuseCaller(caller: Caller | null, tokensOpen = false): Denial | undefined {
  if (caller === null) return deny('credential_invalid')
  if (caller.by === 'key' || tokensOpen) return undefined
  return deny('credential_invalid', { about: 'identity_token' })
}

/** Everything but the counters. */
export function authorize(request: AccessRequest, snapshot: Snapshot, rules: PathRules): Decision {
  const { caller, target, method } = request
  const { operation, query } = target
  const listing = isListing(operation, method)
  if (caller === null) return deny('credential_invalid')
  const keyless = refuseCaller(caller, listing || request.tokensOpen)
  if (keyless !== undefined) return keyless
  const misspelled = refuseSpelling(operation, query, rules)
  if (misspelled !== undefined) return { allowed: false, ...misspelled }

  const model = findModel(request, snapshot, caller)
  if ('allowed' in model) return model
  if (!mayUse(caller, model)) return deny('model_not_allowed')
  const { allPaths } = model.resource.server
  const closed = refuseOperation(operation, method, rules, allPaths)
  if (closed !== undefined) return { allowed: false, ...closed }

  const subscription = selectPaying(snapshot, request, caller, model)
  if ('error' in subscription) return denySubscription(subscription.error, request, caller)
  if (model.cluster === undefined) return deny('model_unavailable')
  return {
    allowed: true,
    caller,
    model,
    cluster: model.cluster,
    subscription: subscription.name,
    limits: listing ? [] : (subscription.limits.get(model.key) as readonly CountedLimit[]),
    states: [],
    metered: rules.metered.has(operation),
    uncounted: isUncounted(operation, method, rules),
    listing,
    owningGroup: snapshot.tenant?.telemetry?.captureGroup
      ? owningGroup(subscription.resource, caller.groups)
      : undefined,
    bodyNames: target.modelKey === undefined ? undefined : model.bodyNames,
    upstreamPath: model.basePath + operation + query,
  }
}

/**
 * The grant with how its limits stand, unless one of them is reached. `counters` are what is known
 * of `grant.limits`, in their order.
 */
export function enforceLimits(
  grant: Grant,
  counters: readonly (CounterState | undefined)[],
  now: number,
): Decision {
  const states = limitStates(grant.limits, counters, now)
  const retryAt = spentUntil(states)
  if (retryAt === undefined) return { ...grant, states }
  return { allowed: false, code: 'token_limit_exceeded', retryAt, states, grant }
}

function deny(code: ErrorCode, detail?: DenialDetail): Denial {
  return detail === undefined ? { allowed: false, code } : { allowed: false, code, detail }
}

/** The key of the model that a request names, whether it is open to the caller or not, if there is one. */
export function namedModel(
  { target, bodyModel }: Pick<AccessRequest, 'target' | 'bodyModel'>,
  { models, modelsByName }: Snapshot,
): string | undefined {
  const { modelKey } = target
  if (modelKey !== undefined) return models.has(modelKey) ? modelKey : undefined
  const named = bodyModel === undefined ? undefined : modelsByName.get(bodyModel)
  return named?.length === 1 ? named[0]?.key : undefined
}

/** A key pays with its own subscription, whatever a header asks for. */
function subscriptionOf(request: AccessRequest, caller: Caller): string | undefined {
  return caller.by === 'key' ? caller.subscription : request.requestedSubscription
}

/** The subscription that pays for a request: one that is being deleted does not (contract, 8.1). */
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

/** A header must not serve to find out names: foreign and unknown are one answer to a token. */
function denySubscription(error: SelectionError, request: AccessRequest, caller: Caller): Denial {
  const named = subscriptionOf(request, caller) !== undefined
  const hidden = error === 'not_found' && named && caller.by === 'token'
  const selection = hidden ? 'access_denied' : error
  const several = error === 'multiple_subscriptions' && { detail: { about: 'several' } as const }
  return { allowed: false, code: 'subscription_not_allowed', selection, ...several }
}

/** The model meant, by path or by body. Unknown and not allowed are one answer. */
function findModel(request: AccessRequest, snapshot: Snapshot, caller: Caller): Model | Denial {
  const { target, bodyModel, bodyProblem } = request
  if (target.modelKey !== undefined) {
    return snapshot.models.get(target.modelKey) ?? deny('model_not_allowed')
  }
  const { operation } = target
  if (isNamedByPath(operation)) {
    return deny('model_path_needed', { about: 'path_needed', operation })
  }
  if (bodyProblem !== undefined || bodyModel === undefined) {
    return deny('invalid_body', { about: 'body', problem: bodyProblem })
  }
  const usableOf = (models: readonly Model[] = []) => models.filter((each) => mayUse(caller, each))
  let usable = usableOf(snapshot.modelsByName.get(bodyModel))
  if (usable.length === 0) usable = usableOf(snapshot.modelsByServedName.get(bodyModel))
  const [first] = usable
  if (first === undefined) return deny('model_not_allowed')
  if (usable.length === 1) return first
  return pickCovered(usable, request, snapshot, caller)
}

/** One name in several namespaces: the one that the caller's subscription covers. */
function pickCovered(
  models: readonly Model[],
  request: AccessRequest,
  snapshot: Snapshot,
  caller: Caller,
): Model | Denial {
  const covered = models.filter(
    (model) => !('error' in selectPaying(snapshot, request, caller, model)),
  )
  if (covered.length === 1) return covered[0] as Model
  const paths = models.map(({ key }) => `/${key}${request.target.operation}`).sort()
  return deny('model_ambiguous', { about: 'ambiguous', paths })
}
