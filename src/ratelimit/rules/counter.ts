/**
 * Counters: one for each user, subscription, model and window (contract, 8.2), and for a key with
 * limits of its own one for each of its windows. What is counted comes from the lines of responses; limits on
 * requests, and on requests in progress, are compared with what is open, too, before a request is allowed. Which
 * window it is depends on the time alone (ratelimit/rules/windows.ts). Reading never counts, and counting never refuses.
 */

import { type Exact, minus } from '../../formats/exact.ts'
import type { LimitKind, NamedLimit, Per } from '../../kinds/limits.ts'
import type { BilledModel, Limit } from '../../kinds/resources.ts'
import { countedAs, counterKey, counterKeyPrefix, userInLines } from './counter-key.ts'
import {
  isWindowless,
  type KeptWindows,
  spanAt,
  type Window,
  type WindowedCounter,
} from './windows.ts'

/**
 * A limit in force on one model under one subscription, with the prefix of its counters' keys. One on
 * concurrency has no window: its length is 0, its text empty.
 */
export interface CountedLimit extends Omit<Limit, 'limit'> {
  /** In tokens, requests, or nano-units of money. */
  readonly limit: Exact
  readonly kind: LimitKind
  /** Whose use is counted together. */
  readonly scope: Per
  /** Whose limit it is. Of those of a model or the Tenant callers are told no figures. */
  readonly origin: 'subscription' | 'model' | 'tenant' | 'key'
  /** In `limits[]`; undefined: it has none. */
  readonly limitName: string | undefined
  /** Which models it says that it counts together. */
  readonly models?: NamedLimit['models']
  /** Its windows, as its counters have them. */
  readonly windows: Window
  /** The counter, if it is the same in each request. */
  readonly counter: Required<Counter> | undefined
  /** Its name in the `RateLimit` fields. */
  readonly name: string
  /** Its counters' keys without the user, or the group. */
  readonly keyPrefix: string
  /**
   * Its item of the `RateLimit-Policy` field (draft-ietf-httpapi-ratelimit-headers): its name,
   * quota, unit (the draft's default is requests) and seconds. Empty: these fields leave it out.
   */
  readonly policy: string
  /** If it is increased, until when; milliseconds since the epoch. */
  readonly increasedUntil?: number
}

/**
 * A counter as a store addresses it. Its owner, whose phase its windows have, is the user as lines name
 * them, or a key; that of a limit on concurrency has a window of 0 ms, and is with the holds alone.
 */
export interface Counter extends WindowedCounter {
  /** The limit it is read for. A store that learns of others' use asks more often near it. */
  readonly limit?: Exact
}

/** The window at an instant: what was used in it and when it ends, in milliseconds since the epoch. */
export interface CounterState {
  readonly used: Exact
  readonly resetsAt: number
  /** Tokens that open requests are expected to use, if they hold any. */
  readonly held?: number
}

/** The state of a limit for one user. */
export interface LimitState {
  readonly limit: CountedLimit
  /** Of requests also those that are in progress. */
  readonly used: Exact
  readonly remaining: Exact
  /** Tokens that open requests are expected to use, if they hold any; not in `remaining`. */
  readonly held?: number
  /** Milliseconds since the epoch; of concurrency, when it was read. */
  readonly resetsAt: number
}

/** The states of limits. `counters` are the stores' states for them, in the same order. */
export function limitStates(
  limits: readonly CountedLimit[],
  counters: readonly CounterState[],
  now: number,
): readonly LimitState[] {
  return limits.map((limit, i) => {
    const { used, resetsAt, held } = counters[i] as CounterState
    const remaining = used < limit.limit ? minus(limit.limit, used) : 0
    if (limit.kind === 'concurrency') return { limit, used, remaining, resetsAt: now }
    if (held === undefined) return { limit, used, remaining, resetsAt }
    return { limit, used, remaining: remaining > held ? minus(remaining, held) : 0, held, resetsAt }
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

/** Of which kind and scope limits are; `key`: whose, if they are one key's only. */
type Sort = {
  readonly kind?: 'tokens' | 'requests' | 'concurrency'
  readonly scope?: 'user' | 'key'
  readonly key?: { readonly id: string; readonly user: string }
}

/**
 * The limits of one subscription on one model, each with the prefix of its counters' keys. Of
 * limits on equally long windows (`1m`, `60s`) only the lowest is kept: they would share a counter
 * and charge it once each, and the lowest implies the others.
 */
export function toCountedLimits(
  subscription: string,
  model: string,
  limits: readonly Limit[],
  { kind = 'tokens', scope = 'user', key }: Sort = {},
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
    const keyPrefix = counterKeyPrefix({ subscription, model, counted: countedAs(kind, windowMs) })
    const windows = { ms: windowMs }
    const counter = key && {
      key: keyPrefix + userInLines(key.user),
      owner: key.id,
      window: windows,
      limit: limit.limit,
    }
    // As in toNamedCountedLimit: objects of one shape are read faster.
    return {
      kind,
      limit: limit.limit,
      window,
      windowMs,
      scope,
      origin: scope === 'key' ? 'key' : 'subscription',
      limitName: undefined,
      models: undefined,
      windows,
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

/** Whether it counts requests, of which each is counted before it is allowed. */
export function isOfRequests({ kind }: Pick<CountedLimit, 'kind'>): boolean {
  return kind === 'requests' || kind === 'concurrency'
}

/** Stands for all counters of a user's model in a subscription, whatever its limits are. */
export function anyCounterOf(subscription: string, model: string, user: string): Counter {
  const owner = userInLines(user)
  const key = counterKey({ subscription, model, counted: '', user: owner })
  return { key, owner, window: { ms: 0 } }
}

/** By whose use it is, whose few are together in memory: a key that is written anew, and found by its text, costs a Check most. */
const known = new Map<string, Map<CountedLimit, Required<Counter>>>()
/** Beyond this many all are forgotten, also those of limits that are in force no more. */
const maxKnown = 32_768
let size = 0

/** The counter of one limit for one user, and the group whose pool that user draws on. Mostly the same object for the same one. */
export function counterOf(limit: CountedLimit, user: string, pool = ''): Required<Counter> {
  if (limit.counter !== undefined) return limit.counter
  const whom = limit.scope === 'group' ? pool : userInLines(user)
  const found = known.get(whom)?.get(limit)
  if (found !== undefined) return found
  const key = limit.keyPrefix + whom
  const owner = limit.scope === 'group' ? key : whom
  const counter = { key, owner, window: limit.windows, limit: limit.limit }
  bound()
  known.set(whom, (known.get(whom) ?? new Map()).set(limit, counter))
  return counter
}

/** To be called before something is remembered. */
function bound(): void {
  if (size++ % maxKnown !== 0) return
  known.clear()
  lists = new WeakMap()
}

type Limits = readonly CountedLimit[]
type Counters = readonly Required<Counter>[] & KeptWindows

/** For a list of limits the counters of each user, with the pool of those that draw on one. */
let lists = new WeakMap<Limits, Map<string, { readonly pool: string; readonly all: Counters }>>()

/** The counters of these limits, as `counterOf`, in the same order; mostly the same list for the same list and user. */
export function countersOf(limits: Limits, user: string, pool = ''): Counters {
  const found = lists.get(limits)?.get(user)
  if (found?.pool === pool) return found.all
  const counters = limits.map((limit) => counterOf(limit, user, pool))
  const all = Object.assign(counters, { last: null })
  bound()
  lists.set(limits, (lists.get(limits) ?? new Map()).set(user, { pool, all }))
  return all
}

const joined = new WeakMap<Limits, WeakMap<Limits, Limits>>()

/** The limits of a model, and then those of a key; the same list for the same two. */
export function joinLimits(shared: Limits, own: Limits): Limits {
  const byShared = joined.get(own) ?? new WeakMap<Limits, Limits>()
  const both = byShared.get(shared) ?? [...shared, ...own]
  joined.set(own, byShared.set(shared, both))
  return both
}

/** What is known now of a counter, as it will be at a later instant if nothing more is counted. */
export function stateLater(counter: Counter, state: CounterState, at: number): CounterState {
  if (isWindowless(counter)) return { used: 0, resetsAt: at }
  if (at < state.resetsAt) return state
  return { used: 0, resetsAt: spanAt(counter.window, counter.owner, at).end }
}

/** Of the limits that are reached the one to wait for, whose window ends last; undefined: none is. */
export function lastSpent(states: readonly LimitState[]): LimitState | undefined {
  let last: LimitState | undefined
  for (const state of states) {
    if (state.remaining === 0 && (last === undefined || state.resetsAt > last.resetsAt))
      last = state
  }
  return last
}
