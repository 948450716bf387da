/**
 * Token counters: one for each user, subscription, model and window (contract, 8.2). A window is
 * fixed and opened by its first hit. Reading never counts, adding never refuses.
 */

import type { Limit } from './resources.ts'

/** A limit in force on one model under one subscription, ready to name its counters. */
export interface CountedLimit extends Limit {
  /** All of a counter's key but the user, who comes last since only a user may hold a line break. */
  readonly keyPrefix: string
  /**
   * Its item of the `RateLimit-Policy` field (draft-ietf-httpapi-ratelimit-headers): the window's
   * name, quota and seconds. The unit is said, since the draft counts requests unless told.
   */
  readonly policy: string
}

/** What names a counter to a store. */
export interface Counter {
  readonly key: string
  readonly windowMs: number
  /** What it is asked for: a store that learns of others' tokens looks more often when it is near. */
  readonly limit?: number
}

/** An open window: tokens used in it and when it ends, in milliseconds since the epoch. */
export interface CounterState {
  readonly used: number
  readonly resetsAt: number
}

/** How a limit stands for one user. A window that is not open is told as if it opened now. */
export interface LimitState {
  readonly limit: CountedLimit
  readonly used: number
  readonly remaining: number
  /** Milliseconds since the epoch. */
  readonly resetsAt: number
}

/** How limits stand, `counters` being what their stores know of them, in the same order. */
export function limitStates(
  limits: readonly CountedLimit[],
  counters: readonly (CounterState | undefined)[],
  now: number,
): readonly LimitState[] {
  return limits.map((limit, i) => {
    const open = openAt(counters[i], limit.windowMs, now)
    const used = open === undefined ? 0 : open.used
    const remaining = used < limit.limit ? limit.limit - used : 0
    return { limit, used, remaining, resetsAt: open?.resetsAt ?? now + limit.windowMs }
  })
}

/**
 * The limits of one subscription on one model, each with the beginning of its counters' keys. Of
 * limits on equally long windows (`1m`, `60s`) the lowest alone is kept: they share a counter,
 * which would be charged once for each, and where the lowest holds the others do.
 */
export function toCountedLimits(
  subscription: string,
  model: string,
  limits: readonly Limit[],
): readonly CountedLimit[] {
  const lowest = new Map<number, Limit>()
  for (const limit of limits) {
    const earlier = lowest.get(limit.windowMs)
    if (earlier === undefined || limit.limit < earlier.limit) lowest.set(limit.windowMs, limit)
  }
  return [...lowest.values()].map((limit) => ({
    ...limit,
    keyPrefix: `${subscription}\n${model}\n${limit.windowMs}\n`,
    policy: `"${limit.window}";q=${limit.limit};w=${limit.windowMs / 1_000};qu="tokens"`,
  }))
}

/** The counter of one limit for one user. */
export function counterOf(limit: CountedLimit, user: string): Counter {
  return { key: limit.keyPrefix + user, windowMs: limit.windowMs, limit: limit.limit }
}

/**
 * The window as it stands now; undefined when none is open. One that would end later than a whole
 * window from now belongs to a clock that has since stepped back, and is cut: a store has to keep
 * the cut, or a spent limit would refuse until the clock has caught up.
 */
export function openAt(
  state: CounterState | undefined,
  windowMs: number,
  now: number,
): CounterState | undefined {
  if (state === undefined || now >= state.resetsAt) return undefined
  return state.resetsAt <= now + windowMs ? state : { used: state.used, resetsAt: now + windowMs }
}

/** The state after `tokens` more. A closed window is opened anew by this hit. */
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
 * The state after `tokens` of a response that ended at `endedAt`, told of later and perhaps out of
 * order. An open window gets them; one that they open ends when it would have, had they been told
 * of at once. Nothing is added once that is over, or was when the open window began.
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
 * When the caller may ask again, in milliseconds since the epoch: the latest end among the
 * windows whose limit is reached; undefined while every limit holds.
 */
export function spentUntil(states: readonly LimitState[]): number | undefined {
  let until: number | undefined
  for (const { remaining, resetsAt } of states) {
    if (remaining === 0 && (until === undefined || resetsAt > until)) until = resetsAt
  }
  return until
}
