/** An explanation in the response of `POST /v1/explain`. */

import type { FromSchema } from 'json-schema-to-ts'
import type { BackendState } from '../../cluster/rules/conditions.ts'
import type { StepName } from '../../decide/decide.ts'
import type { ConsideredSubscription, Explanation } from '../../decide/explain.ts'
import type { PastRefusal } from '../../decide/past-refusal.ts'
import { messageOf, refusalReason } from '../../decide/refusal-message.ts'
import { describe, type ErrorCode, toEnvelope } from '../../formats/errors.ts'
import { showFirst } from '../../formats/lists.ts'
import { toFigure } from '../../formats/money.ts'
import { redact } from '../../formats/redact.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/time.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import type { Resource } from '../../kinds/resources.ts'
import { type Model, resourceKey } from '../../models/rules/snapshot.ts'
import { dialectOf, statusIn } from '../../operations/dialect.ts'
import { readTarget } from '../../operations/target.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import type { LimitState } from '../../ratelimit/rules/limit.ts'
import { hasFigures } from '../../ratelimit/rules/limit-headers.ts'
import {
  answers,
  integer,
  nullableTimestamp,
  object,
  objects,
  optional,
  string,
  timestamp,
} from '../http/schema.ts'
import {
  currencyOf,
  currencySchema,
  figure,
  limitFields,
  limitNames,
  toStateJson,
} from '../usage/limit-state.ts'
import { tableField } from './explain-table.ts'

/** Where a resource (`<kind>/<namespace>/<name>`) is written; line 0: in a cluster. */
export type Locate = (resource: string) => { readonly file: string; readonly line: number }

/** What an explanation is shown with. */
interface View {
  /** undefined: for a caller who is not an administrator, who sees only own resources. */
  readonly locate: Locate | undefined
  readonly caller: Caller | null
  readonly path: string
  /** The instant of the decision; milliseconds since the epoch. */
  readonly at: number
  /** When the key expires; null: never. */
  readonly expiresAt?: number | null
  readonly askedAs?: AskedAs | undefined
  /** Of those that may have been meant instead. */
  readonly otherwise?: readonly OtherKey[]
  /** Problems of resources that the request would need and that are not in force; for administrators. */
  readonly broken?: readonly string[]
  /** Of limits on cost. */
  readonly currency: string
  readonly tenant: Resource | undefined
  /** How the last request to a model's server ended. */
  readonly backendOf?: ((model: string) => BackendState | undefined) | undefined
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
  /** undefined: it is allowed. */
  readonly code: ErrorCode | undefined
}

type Json = Readonly<Record<string, unknown>>

export function toExplanationJson(explanation: Explanation, view: View): Json {
  const { decision, model, closed, outside, policies, subscriptions, unlisted } = explanation
  const {
    caller,
    path,
    at,
    expiresAt,
    locate,
    askedAs,
    otherwise = [],
    backendOf,
    broken = [],
  } = view
  const states = decision.states ?? []
  const { pool } = (decision.allowed ? decision : decision.grant) ?? {}
  const refusing = decision.allowed ? undefined : decision.refusing
  const steps = toStepsJson(explanation, view)
  const isOpen = steps.some(({ step }) => step === 'operation')
  const changesAt = decision.allowed ? expiresAt : decision.retryAt
  return {
    allowed: decision.allowed,
    ...(!decision.allowed && {
      status: statusIn(dialectOf(readTarget(path)?.operation), decision.code),
      code: toEnvelope(decision.code).error.code,
      message: redact(messageOf(decision, at) ?? describe(decision.code).message),
      ...(locate &&
        reasonIn(
          withBroken(
            refusalReason(
              decision,
              () => closed,
              () => outside,
            ),
            broken,
          ),
        )),
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
  return { ...key, allowed: false, code: toEnvelope(code).error.code }
}

/** The steps with what decided them; for users, `model` includes `access`. */
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

/** A resource by name, and for administrators where it is written. */
export function toResourceJson(resource: Resource, locate: Locate | undefined): Json {
  const { kind, metadata } = resource
  const { namespace, name } = metadata
  return { kind, namespace, name, ...(locate && placeOf(locate, resourceKey(resource))) }
}

/** File and line of a resource (`<kind>/<namespace>/<name>`) that is in a file. */
export function placeOf(locate: Locate, resource: string): Json {
  const { file, line } = locate(resource)
  return line > 0 ? { file, line } : {}
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
    const isTold = whole || hasFigures(limit)
    return {
      ...toStateJson(state, counterOf(limit, caller?.user ?? '', pool), isTold),
      ...(held !== undefined && isTold && { held: toFigure(limit, held) }),
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

/** The most problems that a reason names. */
const problemsShown = 5

function withBroken(reason: string | undefined, broken: readonly string[]): string | undefined {
  if (broken.length === 0) return reason
  const found = showFirst(broken.slice(0, problemsShown), problemsShown, broken.length)
  return `${reason === undefined ? '' : `${reason}; `}not in force: ${found}`
}

function reasonIn(reason: string | undefined): Json {
  return reason === undefined ? {} : { reason: redact(reason) }
}

/** The refusal at that time. `whole`: for an administrator. */
export function toPastJson(past: PastRefusal, whole: boolean): Json {
  const { requestId, at, status, code, message, reason, caller, method, path, bodyModel } = past
  return {
    requestId,
    at: toTimestamp(at),
    status,
    code: toEnvelope(code).error.code,
    message: redact(message),
    ...(whole && reasonIn(reason)),
    ...whoIn(caller),
    method,
    path: redact(path),
    ...(bodyModel !== undefined && { model: redact(bodyModel) }),
    limits: toLimitsJson(past.states, caller, past.pool, whole),
  }
}

/** What `showResource` shows. */
export const resourceFields = {
  kind: { type: 'string', examples: ['Subscription'] },
  namespace: optional(string('Absent if unknown.')),
  name: { type: 'string' },
  file: optional(string('For administrators, of resources in files.')),
  line: optional({ type: 'integer', minimum: 1 }),
} as const

const status = integer('The HTTP status of the refusal.', { examples: [429] })
const code = { type: 'string', examples: ['rate_limit_exceeded'] } as const
const message = string('The message of the refusal.')

const outcome = {
  reason: optional(string('For administrators: more than the message says.')),
  at: timestamp,
  user: optional({ type: 'string' }),
  keyId: optional(string('Only of a key.')),
  model: optional({ type: 'string', examples: ['llm/sim-small'] }),
  limits: {
    description: 'Empty if the decision ended before them.',
    ...objects('LimitState', {
      ...limitNames,
      limit: limitFields.limit,
      used: limitFields.used,
      held: optional({
        ...figure,
        description: 'What requests in progress hold, if any.',
      }),
      remaining: limitFields.remaining,
      percentLeft: limitFields.percentLeft,
      startsAt: limitFields.startsAt,
      resetsAt: { ...nullableTimestamp, description: 'null: of concurrency.' },
      increasedUntil: limitFields.increasedUntil,
      refuses: optional({
        ...{ type: 'boolean', const: true },
        description: 'Only of the limit that refuses the request; not of a past refusal.',
      }),
    }),
  },
} as const

/** What `showPast` shows. */
export const pastRefusal = object('PastRefusal', {
  requestId: { type: 'string' },
  status,
  code,
  message,
  ...outcome,
  method: optional({ type: 'string' }),
  path: optional({ type: 'string' }),
})

export const responseSchema = answers(
  'The decision, as it would be made at that time.',
  [400, 403, 404, 413],
  'Explanation',
  {
    allowed: { type: 'boolean' },
    status: optional(status),
    code: optional(code),
    message: optional(message),
    ...outcome,
    askedAs: optional({
      description:
        'The key assumed for the named user, or for a caller whose identity token is not enough.',
      ...object('AskedAs', {
        key: string('The newest active one that is not ephemeral, or a new one.', {
          enum: ['newest', 'new'],
        }),
        keyId: optional(string('Absent for a new key.')),
        name: optional(string('Absent for a new key.')),
        subscription: string('Bare name of its subscription.'),
        otherwise: optional({
          description:
            'Others of the 20 newest keys, with which the result would differ; absent if there are none.',
          type: 'array',
          items: object('OtherKey', {
            keyId: { type: 'string' },
            name: { type: 'string' },
            subscription: { type: 'string' },
            allowed: { type: 'boolean' },
            code: optional(code),
          }),
        }),
      }),
    }),
    backend: optional({
      description:
        "Only if the last request to the model's server failed, as far as the responding process knows. No request is refused for it.",
      ...object('BackendFailure', {
        reachable: { type: 'boolean', const: false },
        reason: { type: 'string', examples: ['refused'] },
        detail: optional(string('For administrators.')),
      }),
    }),
    unlistedName: optional({
      description:
        "Only if the model's server does not list the name that it would be sent, so that it may respond with 404: set spec.upstreamModel of the ModelRef to a name that it lists. No request is refused for it.",
      ...object('UnlistedName', {
        sent: string("The name in the body, or the ModelRef's if only the path names the model."),
        listed: {
          type: 'array',
          items: { type: 'string' },
          description: 'At most five of them.',
        },
      }),
    }),
    steps: {
      description: 'In order, up to the step that decided.',
      ...objects('DecisionStep', {
        step: string(
          'Only administrators see access; for others it is part of model. budget is present only if an operation is refused because it is not counted under a limit on cost.',
          {
            enum: [
              'credential',
              'address',
              'path',
              'model',
              'access',
              'cap',
              'operation',
              'subscription',
              'budget',
              'backend',
              'limits',
            ],
          },
        ),
        passed: { type: 'boolean' },
        resource: optional({
          description: 'The resource that decided the step.',
          ...object('ResourcePlace', resourceFields),
        }),
      }),
    },
    policies: {
      description: 'Those that name the model; for a user only those that open it to the user.',
      ...objects('ConsideredPolicy', { ...resourceFields, opens: { type: 'boolean' } }),
    },
    subscriptions: {
      description: "The user's, and the named one; empty if the decision ended before them.",
      ...objects('ConsideredSubscription', {
        ...resourceFields,
        pays: { type: 'boolean' },
        passedOver: optional(
          string('not_named: the key or the request names another one.', {
            enum: [
              'not_named',
              'not_found',
              'access_denied',
              'model_not_in_subscription',
              'model_unhealthy',
              'multiple_subscriptions',
            ],
          }),
        ),
      }),
    },
    currency: currencySchema,
    ...tableField,
    changesAt: optional({
      ...timestamp,
      description: 'When the limit resets or the key expires, if the result changes then.',
    }),
    refusal: optional({
      ...pastRefusal,
      description: 'Only with requestId: what was answered then.',
    }),
  },
)

/** The response. */
export type ExplainAnswer = FromSchema<(typeof responseSchema)[200]>
