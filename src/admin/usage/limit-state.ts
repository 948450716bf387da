/** Limits and their counters: selecting, reading and showing them. */

import type { ExactInt } from '../../formats/exact.ts'
import { toAmount } from '../../formats/money.ts'
import { dayMs, toEndTimestamp } from '../../formats/time.ts'
import type { CompiledCaps } from '../../identity/rules/caller.ts'
import type { ApiKeyRecord } from '../../keys/rules/api-key.ts'
import { compileCaps } from '../../keys/rules/compiled-caps.ts'
import { type LimitKind, limitKinds, limitScopes } from '../../kinds/limits.ts'
import {
  type LimitSubject,
  limitsOnModel,
  type ModelLimit,
  sharerOfCounter,
  subscriptionAndModels,
} from '../../models/rules/shared-limits.ts'
import type { CompiledSubscription, Snapshot } from '../../models/rules/snapshot.ts'
import type { ResettableCounters } from '../../ratelimit/counters.ts'
import type { ActiveIncreases } from '../../ratelimit/increases/active-increases.ts'
import { readLimitStates } from '../../ratelimit/increases/read-limit-states.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import type { CountedLimit, LimitState } from '../../ratelimit/rules/limit.ts'
import { boundsAt } from '../../ratelimit/rules/windows.ts'
import {
  boolean,
  integer,
  nullableTimestamp,
  optional,
  string,
  strings,
  timestamp,
} from '../http/schema.ts'

/** A name to look for; at most as long as that of a user who can have keys. */
export const nameSchema = { type: 'string', minLength: 1, maxLength: 2_048 } as const
export const countSchema = { type: 'integer', minimum: 0 } as const

export const limitFilters = {
  subscription: { ...nameSchema, description: 'Only of this subscription.' },
  model: { ...nameSchema, description: 'Only of this model.', examples: ['llm/sim-small'] },
} as const

/** Tokens and requests, or money. */
export const figureSchema = { type: ['integer', 'string'] } as const
/** A `figureSchema`, or null for callers who may not see it. */
const maybeFigure = { type: ['integer', 'string', 'null'] } as const

/** The fields that identify a limit, wherever one is shown. */
export const limitNameFields = {
  name: { type: ['string', 'null'], description: 'The name of a named limit, otherwise null.' },
  kind: string('What it counts; concurrency: requests in progress.', { enum: limitKinds }),
  scope: string('Who shares one counter of the limit.', { enum: limitScopes }),
  whom: optional(
    string(
      'Who shares it, if several users do: a group (users: the users that the subscription names), an organization or a subscription.',
    ),
  ),
  window: {
    type: ['string', 'null'],
    description: 'null for a limit on concurrency.',
    examples: ['1h', 'month'],
  },
} as const

export const limitFields = {
  subscription: {
    type: ['string', 'null'],
    description:
      'The subscription of the limit; null for a limit of the model, or of the installation if model is null too.',
  },
  model: {
    type: ['string', 'null'],
    description: 'null for a limit on several models together.',
    examples: ['llm/sim-small'],
  },
  models: optional(strings('The models, if not all.')),
  ...limitNameFields,
  limit: {
    ...maybeFigure,
    description:
      'Tokens or requests in a window, or concurrent requests; for cost a decimal number as a string. null, like used and remaining, for limits of models and of the installation, whose figures only administrators see.',
  },
  used: maybeFigure,
  remaining: maybeFigure,
  percentLeft: integer('Rounded down; 0 means that the limit is used up.', {
    minimum: 0,
    maximum: 100,
  }),
  startsAt: {
    ...nullableTimestamp,
    description:
      'When the window began, which is resetsAt of the previous one; null for concurrency.',
  },
  resetsAt: nullableTimestamp,
  enforced: boolean('Whether it refuses requests; otherwise it is only counted and shown.'),
  increasedUntil: optional({
    ...timestamp,
    description: 'When the increase ends; absent without an increase.',
  }),
} as const

/** The currency of a list, if it has limits on cost. */
export const currencySchema = optional(
  string('Currency of limits on cost, ISO 4217; absent if there are none.'),
)

/** Rounded down, but not to 0 while something is left. */
function percentLeft({ limit, remaining }: LimitState): number {
  if (remaining === 0) return 0
  return Math.max(1, Number((BigInt(remaining) * 100n) / BigInt(limit.limit)))
}

/** Name, kind, scope and window of a limit. */
export function toLimitNamesJson({ limitName, kind, scope, window }: CountedLimit) {
  return { name: limitName ?? null, kind, scope, window: window || null }
}

/** A limit as shown. A counter of concurrency has no window. `isTold`: with figures. */
export function toLimitStateJson(state: LimitState, counter: Counter, isTold: boolean) {
  const { limit, used, remaining, resetsAt } = state
  const shown = (value: ExactInt) => (isTold ? toAmount(limit, value) : null)
  const isOpen = limit.kind === 'concurrency'
  const whom = sharerOfCounter(limit, counter)
  return {
    ...toLimitNamesJson(limit),
    ...(whom !== undefined && { whom }),
    limit: shown(limit.limit),
    used: shown(used),
    remaining: shown(remaining),
    percentLeft: percentLeft(state),
    startsAt: isOpen
      ? null
      : toEndTimestamp(boundsAt(counter.window, counter.owner, resetsAt - 1).start),
    resetsAt: isOpen ? null : toEndTimestamp(resetsAt),
    ...(limit.increasedUntil !== undefined && {
      increasedUntil: toEndTimestamp(limit.increasedUntil),
    }),
  }
}

/** A limit with its counter. */
export interface OwnLimit extends LimitSubject, ModelLimit {
  readonly counter: Counter
}

/** Maximum number of limits in one request: reading a counter costs a shared store a key each. */
export const maxLimits = 1_000

/** Which limits; without a field, of any. */
export interface LimitSelection {
  readonly subscription?: string | undefined
  readonly model?: string | undefined
  readonly window?: string | undefined
  /** The name of a limit by name. */
  readonly name?: string | undefined
}

/** Whose limits. */
interface Drawing {
  readonly user: string
  /** The group whose pool the user draws on. If undefined, the group is unknown, and only limits of users are selected. */
  readonly poolIn: ((subscription: CompiledSubscription) => string) | undefined
  readonly mayUse: (model: string) => boolean
}

/** The limits of Subscriptions, their models and the Tenant, in order; incomplete beyond `maxLimits`. */
export function limitsIn(
  subscriptions: Iterable<CompiledSubscription>,
  only: LimitSelection,
  { user, poolIn, mayUse }: Drawing,
): OwnLimit[] {
  const found = new Map<string, OwnLimit>()
  for (const subscription of subscriptions) {
    const pool = poolIn?.(subscription)
    const seen = new Set<string>()
    const { limits } = subscription
    const models = only.model === undefined ? [...limits.keys()].sort() : [only.model]
    for (const model of models.filter(mayUse)) {
      for (const { limit, isEnforced } of limitsOnModel(subscription, model)) {
        // A limit on several models has one counter.
        if (seen.has(limit.keyPrefix) || !isSelectedLimit(limit, only)) continue
        seen.add(limit.keyPrefix)
        if (pool === undefined && limit.scope !== 'user') continue
        const counter = counterOf(limit, user, pool)
        if (found.has(counter.key)) continue
        const about = subscriptionAndModels(limit, model, subscription)
        const shown = about.models?.filter(mayUse)
        found.set(counter.key, { ...about, models: shown, limit, isEnforced, counter })
      }
      if (found.size > maxLimits) return sortLimits([...found.values()])
    }
  }
  return sortLimits([...found.values()])
}

/** The limits of a key itself, on this model or on any, unless it may use none of their models. */
export function limitsOfKey(
  caps: CompiledCaps | undefined,
  subscription: Pick<CompiledSubscription, 'name' | 'calendar'>,
  { user, mayUse }: Pick<Drawing, 'user' | 'mayUse'>,
  model?: string,
): readonly OwnLimit[] {
  if (model !== undefined && !mayUse(model)) return []
  const { limits = [], observed = [] } = caps?.limitsOn?.(model, subscription.calendar) ?? {}
  const own = (limit: CountedLimit, isEnforced: boolean) => {
    const about = subscriptionAndModels(limit, null, subscription)
    const models = about.models?.filter(mayUse)
    const isOpen =
      models === undefined ? about.model === null || mayUse(about.model) : models.length > 0
    return isOpen ? [{ ...about, models, limit, isEnforced, counter: counterOf(limit, user) }] : []
  }
  return [
    ...limits.flatMap((each) => own(each, true)),
    ...observed.flatMap((each) => own(each, false)),
  ]
}

/** The limits of a key itself, from its record. */
export function limitsOfKeyRecord(
  key: ApiKeyRecord,
  { subscriptions }: Pick<Snapshot, 'subscriptions'>,
): readonly OwnLimit[] {
  const { subscription: name, user } = key
  const { calendar = {} } = subscriptions.get(name) ?? {}
  return limitsOfKey(compileCaps(key), { name, calendar }, { user, mayUse: () => true })
}

/** Whether the limit has the selected window and name; without one of them, any. */
export function isSelectedLimit(
  { window, limitName }: CountedLimit,
  { window: ofWindow = window, name: ofName = limitName }: LimitSelection,
): boolean {
  return window === ofWindow && limitName === ofName
}

/** Limits of Subscriptions first and of keys last; then by model, kind, length of the window and name. */
export function sortLimits<Shown extends OwnLimit>(limits: readonly Shown[]): Shown[] {
  return limits.toSorted(
    (a, b) =>
      Number(a.limit.origin === 'key') - Number(b.limit.origin === 'key') ||
      nullLast(a.subscription, b.subscription) ||
      nullLast(a.model, b.model) ||
      limitKinds.indexOf(a.limit.kind) - limitKinds.indexOf(b.limit.kind) ||
      windowMsOf(a.limit) - windowMsOf(b.limit) ||
      compare(a.limit.name, b.limit.name) ||
      compare(a.counter.key, b.counter.key),
  )
}

function nullLast(a: string | null, b: string | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  return compare(a, b)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

const calendarMs = { day: dayMs, week: 7 * dayMs, month: 30 * dayMs }

/** Length of its window in milliseconds, approximate for a calendar's. */
export function windowMsOf({ parsedWindow }: Pick<CountedLimit, 'parsedWindow'>): number {
  return 'ms' in parsedWindow ? parsedWindow.ms : calendarMs[parsedWindow.every]
}

interface ReadingDeps {
  readonly readCounters: ResettableCounters['readFresh']
  readonly increases: Pick<ActiveIncreases, 'raise'>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

/** These limits as shown, each with its counter and whether anything is counted there. */
export async function readShownLimits(
  { readCounters, increases, clock }: ReadingDeps,
  own: readonly OwnLimit[],
  isTold: (limit: CountedLimit) => boolean = () => true,
) {
  const states = await readLimitStates({ readCounters, raise: increases.raise }, own, clock())
  return own.map(({ subscription, model, models, limit, isEnforced, counter }, i) => {
    const state = states[i] as LimitState
    const shown = {
      subscription,
      model,
      ...(models && { models }),
      ...toLimitStateJson(state, counter, isTold(limit)),
      enforced: isEnforced,
    }
    return { counter, isUsed: state.used > 0, shown }
  })
}

/** The currency of the shown amounts. */
export function currencyOf(shown: readonly { readonly kind: LimitKind }[], currency: string) {
  return shown.some(({ kind }) => kind === 'cost') ? { currency } : {}
}
