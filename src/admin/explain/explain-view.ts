/** An explanation in the response of `POST /v1/explain`. */

import type { BackendState } from '../../cluster/rules/conditions.ts'
import type { StepName } from '../../decide/decide.ts'
import type { Denial } from '../../decide/decision.ts'
import type { ConsideredSubscription, Explanation } from '../../decide/explain.ts'
import { clientErrorCode } from '../../decide/limit-message.ts'
import type { PastRefusal } from '../../decide/past-refusal.ts'
import { denialMessage, refusalReason } from '../../decide/refusal-message.ts'
import { type ErrorCode, errorBody, errorEntry } from '../../formats/errors.ts'
import { joinFirst } from '../../formats/lists.ts'
import { toAmount } from '../../formats/money.ts'
import { redact } from '../../formats/redact.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/time.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import type { Resource } from '../../kinds/resources.ts'
import type { Model } from '../../models/rules/snapshot.ts'
import { dialectOf, refusalStatus } from '../../operations/dialect.ts'
import { parseTarget } from '../../operations/request-target.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import type { LimitState } from '../../ratelimit/rules/limit.ts'
import { showsFigures } from '../../ratelimit/rules/limit-headers.ts'
import { currencyOf, toLimitStateJson } from '../usage/limit-state.ts'
import { type Locate, toResourceJson } from './resource-place.ts'

/** The inputs of showing an explanation. */
interface View {
  /** Undefined for a caller who is not an administrator and sees only own resources. */
  readonly locate: Locate | undefined
  readonly caller: Caller | null
  readonly path: string
  /** The instant of the decision; milliseconds since the epoch. */
  readonly at: number
  /** When the result changes if nothing else is used, in milliseconds since the epoch. */
  readonly changesAt: number | undefined
  readonly askedAs: AskedAs | undefined
  /** Other keys that may have been meant. */
  readonly otherwise: readonly OtherKey[]
  /** Problems of resources that the request would need and that are not in force; for administrators. */
  readonly broken: readonly string[]
  /** For limits on cost. */
  readonly currency: string
  readonly tenant: Resource | undefined
  /** How the last request to a model's server ended. */
  readonly backendOf: ((model: string) => BackendState | undefined) | undefined
}

/** The key assumed for a user who is named without one. */
export type AskedAs =
  | {
      readonly key: 'newest'
      readonly keyId: string
      readonly name: string
      readonly subscription: string
    }
  | { readonly key: 'new'; readonly subscription: string }

/** Another key of the user, with which the result differs. */
export interface OtherKey {
  readonly keyId: string
  readonly name: string
  readonly subscription: string
  /** Undefined if it is allowed. */
  readonly code: ErrorCode | undefined
}

type Json = Readonly<Record<string, unknown>>

/** The response, with reasons and places of resources only if the view has `locate`. */
export function toExplanationJson(explanation: Explanation, view: View): Json {
  const { decision, model, policies, subscriptions, unlisted } = explanation
  const { caller, path, at, changesAt, locate, askedAs, otherwise, backendOf, broken } = view
  const states = decision.states ?? []
  const { pool } = (decision.allowed ? decision : decision.grant) ?? {}
  const refusing = decision.allowed ? undefined : decision.refusing
  const steps = toStepsJson(explanation, view)
  const isOpen = steps.some(({ step }) => step === 'operation')
  return {
    allowed: decision.allowed,
    ...(!decision.allowed && {
      status: refusalStatus(dialectOf(parseTarget(path)?.operation), decision.code),
      code: errorBody(clientErrorCode(decision, at)).error.code,
      message: redact(denialMessage(decision, at) ?? errorEntry(decision.code).message),
      reason: locate && reasonOf(explanation, decision, broken),
    }),
    at: toTimestamp(at),
    ...whoIn(caller),
    ...(askedAs && {
      askedAs: {
        ...askedAs,
        ...(otherwise.length > 0 && { otherwise: otherwise.map(toOtherJson) }),
      },
    }),
    ...(model &&
      (locate || isOpen) && {
        model: model.key,
        ...toFailureJson(model, backendOf, locate),
        ...(unlisted && {
          unlistedName: { ...unlisted, listed: unlisted.listed.slice(0, namesShown) },
        }),
      }),
    steps,
    policies: policies
      .filter(({ opens }) => opens || locate)
      .map(({ policy, opens }) => ({ ...toResourceJson(policy.resource, locate), opens })),
    subscriptions: subscriptions.map((each) => toSubscriptionJson(each, explanation, view)),
    limits: toLimitsJson(states, caller, pool, locate !== undefined, refusing),
    ...currencyOf(
      states.map(({ limit }) => limit),
      view.currency,
    ),
    ...(changesAt && { changesAt: toEndTimestamp(changesAt) }),
  }
}

function toOtherJson({ code, ...key }: OtherKey): Json {
  if (code === undefined) return { ...key, allowed: true }
  return { ...key, allowed: false, code: errorBody(code).error.code }
}

/** The steps with the resources that decided them; for users, `model` includes `access`. */
function toStepsJson(explanation: Explanation, { locate, caller, tenant }: View) {
  const { decision, steps, model, policies, subscriptions } = explanation
  const opening = policies.find(({ opens }) => opens)?.policy.resource
  const paying = subscriptions.find(({ passedOver }) => !passedOver)?.subscription?.resource
  const { origin = 'subscription' } = (!decision.allowed && decision.refusing?.limit) || {}
  const ofKey = origin === 'key' && caller?.by === 'key' && caller.keyId
  const resources: Partial<Record<StepName, Resource | undefined>> = {
    model: model?.resource,
    access: opening,
    subscription: paying,
    budget: paying,
    backend: model?.resource,
    limits: { subscription: paying, model: model?.resource, tenant, key: undefined }[origin],
  }
  const refusedAt = decision.allowed ? undefined : steps.at(-1)
  return steps
    .filter((step) => locate || step !== 'access')
    .map((step) => {
      const isRefused =
        step === refusedAt || (step === 'model' && refusedAt === 'access' && !locate)
      // Whether a model exists stays hidden.
      const isHidden = isRefused && step === 'model' && !locate
      const resource = isHidden ? undefined : resources[step]
      return {
        step,
        passed: !isRefused,
        ...(resource && { resource: toResourceJson(resource, locate) }),
        ...(step === 'limits' && ofKey && { resource: { kind: 'APIKey', name: ofKey } }),
      }
    })
}

function toSubscriptionJson(
  { name, subscription, passedOver }: ConsideredSubscription,
  { decision, steps }: Explanation,
  { caller, locate }: View,
): Json {
  // A user must not learn which names exist.
  const isHidden = passedOver === 'not_found' && caller?.by === 'token' && !locate
  const several = !decision.allowed && decision.selection === 'multiple_subscriptions'
  const because = isHidden ? 'access_denied' : passedOver
  return {
    ...(subscription && (locate || passedOver !== 'access_denied')
      ? toResourceJson(subscription.resource, locate)
      : { kind: 'Subscription', name }),
    pays: because === undefined && steps.at(-1) !== 'subscription',
    ...(because !== undefined && { passedOver: because }),
    ...(because === undefined && several && { passedOver: 'multiple_subscriptions' }),
  }
}

/** `pool`: the group whose counter the caller uses. Figures of others' use are for administrators: `whole`. */
function toLimitsJson(
  states: readonly LimitState[],
  caller: Caller | null,
  pool: string | undefined,
  whole: boolean,
  refusing?: LimitState,
): readonly Json[] {
  return states.map((state) => {
    const { limit, held } = state
    const isTold = whole || showsFigures(limit)
    return {
      ...toLimitStateJson(state, counterOf(limit, caller?.user ?? '', pool), isTold),
      ...(held !== undefined && isTold && { held: toAmount(limit, held) }),
      ...(state === refusing && { refuses: true }),
    }
  })
}

/** Only if the server's last request has failed. Its details may name addresses that users need not know. */
function toFailureJson({ key }: Model, backendOf: View['backendOf'], locate: View['locate']): Json {
  const failure = backendOf?.(key)?.failure
  if (!failure) return {}
  const { reason, detail } = failure
  return { backend: { reachable: false, reason, ...(locate && { detail: redact(detail) }) } }
}

function whoIn(caller: Caller | null): Json {
  if (caller === null) return {}
  return { user: caller.user, ...(caller.by === 'key' && { keyId: caller.keyId }) }
}

/** Names of a server's list. */
const namesShown = 5

/** Maximum number of problems in a reason. */
const problemsShown = 5

function reasonOf(
  { closed, outside }: Explanation,
  denial: Denial,
  broken: readonly string[],
): string | undefined {
  const reason = refusalReason(
    denial,
    () => closed,
    () => outside,
  )
  const found = joinFirst(broken.slice(0, problemsShown), problemsShown, broken.length)
  const all = [reason, found && `not in force: ${found}`].filter(Boolean)
  return all.length === 0 ? undefined : redact(all.join('; '))
}

/** The refusal as of that time. `whole`: for an administrator. */
export function toPastJson(past: PastRefusal, whole: boolean): Json {
  const { requestId, at, status, code, message, reason, caller, method, path, bodyModel } = past
  return {
    requestId,
    at: toTimestamp(at),
    status,
    code: errorBody(code).error.code,
    message: redact(message),
    reason: whole && reason !== undefined ? redact(reason) : undefined,
    ...whoIn(caller),
    method,
    path: redact(path),
    ...(bodyModel !== undefined && { model: redact(bodyModel) }),
    limits: toLimitsJson(past.states, caller, past.pool, whole),
  }
}
