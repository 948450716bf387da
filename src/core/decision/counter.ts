/**
 * Counters: one for each user, subscription, model and window (contract, 8.2), and for a key with
 * limits of its own one for each of its windows. Those of tokens are added to by responses; those of
 * requests, and of requests in progress, are taken from before a request is allowed. A window has a
 * fixed length and starts with its first hit. Reading never counts, and adding never refuses.
 */

import type { BilledModel, Limit } from '../kinds/resources.ts'

/** What a limit counts: tokens or requests in a window, or requests in progress. */
export type LimitKind = 'tokens' | 'requests' | 'concurrency'

/**
 * A limit in force on one model under one subscription, with the prefix of its counters' keys. One on
 * concurrency has no window: its length is 0, its text empty.
 */
export interface CountedLimit extends Limit {
  readonly kind: LimitKind
  /** Whose use is counted: that of the user, or of one key. */
  readonly scope: 'user' | 'key'
  /** The counter, if it is the same in each request. */
  readonly counter: Required<Counter> | undefined
  /** Its name in the `RateLimit` fields. */
  readonly name: string
  /**
   * The counter's key without the user, which comes last because only a user may contain a line
   * break.
   */
  readonly keyPrefix: string
  /**
   * Its item of the `RateLimit-Policy` field (draft-ietf-httpapi-ratelimit-headers): its name,
   * quota, unit (the draft's default is requests) and seconds.
   */
  readonly policy: string
}

/** A counter as a store addresses it. */
export interface Counter {
  readonly key: string
  readonly windowMs: number
  /** The limit it is read for. A store that learns of others' tokens polls more often near it. */
  readonly limit?: number
}

/** An open window: tokens used in it and when it ends, in milliseconds since the epoch. */
export interface CounterState {
  readonly used: number
  readonly resetsAt: number
  /** Tokens that open requests are expected to use, if they hold any. */
  readonly held?: number
}

/** The state of a limit for one user. If no window is open, as if one opened now. */
export interface LimitState {
  readonly limit: CountedLimit
  readonly used: number
  readonly remaining: number
  /** Tokens that open requests are expected to use, if they hold any; not in `remaining`. */
  readonly held?: number
  /** Milliseconds since the epoch; of concurrency, when it was read. */
  readonly resetsAt: number
}

/** The states of limits. `counters` are the stores' states for them, in the same order. */
export function limitStates(
  limits: readonly CountedLimit[],
  counters: readonly (CounterState | undefined)[],
  now: number,
): readonly LimitState[] {
  return limits.map((limit, i) => {
    if (limit.kind === 'concurrency') {
      const used = counters[i]?.used ?? 0
      return { limit, used, remaining: Math.max(0, limit.limit - used), resetsAt: now }
    }
    const open = openAt(counters[i], limit.windowMs, now)
    const used = open === undefined ? 0 : open.used
    const resetsAt = open?.resetsAt ?? now + limit.windowMs
    if (open?.held !== undefined) {
      const { held } = open
      return { limit, used, remaining: Math.max(0, limit.limit - used - held), held, resetsAt }
    }
    const remaining = used < limit.limit ? limit.limit - used : 0
    return { limit, used, remaining, resetsAt }
  })
}

/** All limits of one subscription on one model: of tokens, of requests, of concurrency. */
export function limitsOfModel(
  subscription: string,
  model: string,
  { tokenRateLimits, requestRateLimits, concurrency }: BilledModel,
): readonly CountedLimit[] {
  const written = concurrency === undefined ? [] : [{ limit: concurrency, window: '', windowMs: 0 }]
  return [
    ...toCountedLimits(subscription, model, tokenRateLimits),
    ...toCountedLimits(subscription, model, requestRateLimits, { kind: 'requests' }),
    ...toCountedLimits(subscription, model, written, { kind: 'concurrency' }),
  ]
}

/** Of which kind and scope limits are; `user`: whose, if they are one user's only. */
type Sort = Partial<Pick<CountedLimit, 'kind' | 'scope'>> & { readonly user?: string }

/**
 * The limits of one subscription on one model, each with the prefix of its counters' keys. Of
 * limits on equally long windows (`1m`, `60s`) only the lowest is kept: they would share a counter
 * and charge it once each, and the lowest implies the others.
 */
export function toCountedLimits(
  subscription: string,
  model: string,
  limits: readonly Limit[],
  { kind = 'tokens', scope = 'user', user }: Sort = {},
): readonly CountedLimit[] {
  const lowest = new Map<number, Limit>()
  for (const limit of limits) {
    const earlier = lowest.get(limit.windowMs)
    if (earlier === undefined || limit.limit < earlier.limit) lowest.set(limit.windowMs, limit)
  }
  return [...lowest.values()].map((limit) => {
    const { windowMs, window } = limit
    const sort = [scope === 'user' ? '' : scope, kind === 'tokens' ? '' : kind]
    const name = [...sort, window].filter(Boolean).join('-')
    const counted = [sort[1], windowMs || ''].filter(Boolean).join('-')
    const keyPrefix = prefixOf(subscription, model, counted)
    const counter =
      user === undefined ? undefined : { key: keyPrefix + user, windowMs, limit: limit.limit }
    return {
      ...limit,
      kind,
      scope,
      name,
      counter,
      keyPrefix,
      policy: `"${name}";q=${limit.limit}${windowMs > 0 ? `;w=${windowMs / 1_000}` : ''};qu="${units[kind]}"`,
    }
  })
}

const units = {
  tokens: 'tokens',
  requests: 'requests',
  concurrency: 'concurrent-requests',
} as const

/** Whether requests take from the limit before they are allowed. */
export function isTaken({ kind }: Pick<CountedLimit, 'kind'>): boolean {
  return kind !== 'tokens'
}

/** Stands for all counters of a user's model in a subscription, whatever its limits are. */
export function anyCounterOf(subscription: string, model: string, user: string): Counter {
  return { key: prefixOf(subscription, model, '') + user, windowMs: 0 }
}

function prefixOf(subscription: string, model: string, counted: string): string {
  return `${subscription}\n${model}\n${counted}\n`
}

/** The counter of one limit for one user. */
export function counterOf(limit: CountedLimit, user: string): Required<Counter> {
  if (limit.counter !== undefined) return limit.counter
  return { key: limit.keyPrefix + user, windowMs: limit.windowMs, limit: limit.limit }
}

/**
 * The window at this instant; undefined if none is open. A window that would end later than a whole
 * window from now was opened by a clock that has since stepped back, and is shortened. A store must
 * keep the shortened window: otherwise a used-up limit would refuse until the clock has caught up.
 */
export function openAt(
  state: CounterState | undefined,
  windowMs: number,
  now: number,
): CounterState | undefined {
  if (state === undefined || now >= state.resetsAt) return undefined
  return state.resetsAt <= now + windowMs ? state : { used: state.used, resetsAt: now + windowMs }
}

/** The state after `tokens` more. They open a new window if none is open. */
export function addTo(
  state: CounterState | undefined,
  tokens: number,
  windowMs: number,
  now: number,
): CounterState {
  const open = openAt(state, windowMs, now)
  if (open === undefined) return { used: tokens, resetsAt: now + windowMs }
  return { used: open.used + tokens, resetsAt: open.resetsAt }
}

/**
 * The state after `tokens` of a response that ended at `endedAt`, reported later and perhaps out of
 * order. They go into the open window. A window that they open ends when it would have ended had
 * they been reported at once. Nothing is added if that window is over already, or was over when the
 * open window began.
 */
export function addLate(
  state: CounterState | undefined,
  tokens: number,
  windowMs: number,
  now: number,
  endedAt: number,
): CounterState | undefined {
  const overAt = Math.min(endedAt, now) + windowMs
  if (overAt <= now) return state
  if (state === undefined || now >= state.resetsAt) return { used: tokens, resetsAt: overAt }
  if (overAt <= state.resetsAt - windowMs) return state
  return { used: state.used + tokens, resetsAt: state.resetsAt }
}

/**
 * When the caller may try again, in milliseconds since the epoch: the latest end among the windows
 * whose limit is reached; undefined if no limit is reached.
 */
export function spentUntil(states: readonly LimitState[]): number | undefined {
  let until: number | undefined
  for (const { remaining, resetsAt } of states) {
    if (remaining === 0 && (until === undefined || resetsAt > until)) until = resetsAt
  }
  return until
}
