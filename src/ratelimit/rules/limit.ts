/** Limits in force, and what is left of them by the states of their counters. */

import { type Exact, minus } from '../../formats/exact.ts'
import type { LimitKind, NamedLimit, Per } from '../../kinds/limits.ts'
import type { Limit } from '../../kinds/resources.ts'
import type { Counter, CounterState } from './counter.ts'
import type { Window } from './windows.ts'

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
  /** The resource of the limit. Callers see no figures of limits of a model or the Tenant. */
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

/** Whether it counts requests, of which each is counted before it is allowed. */
export function isOfRequests({ kind }: Pick<CountedLimit, 'kind'>): boolean {
  return kind === 'requests' || kind === 'concurrency'
}

type Limits = readonly CountedLimit[]

const joined = new WeakMap<Limits, WeakMap<Limits, Limits>>()

/** The limits of a model, and then those of a key; the same list for the same two. */
export function joinLimits(shared: Limits, own: Limits): Limits {
  const byShared = joined.get(own) ?? new WeakMap<Limits, Limits>()
  const both = byShared.get(shared) ?? [...shared, ...own]
  joined.set(own, byShared.set(shared, both))
  return both
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

/** Of the limits that are reached the one to wait for, whose window ends last; undefined: none is. */
export function lastSpent(states: readonly LimitState[]): LimitState | undefined {
  let last: LimitState | undefined
  for (const state of states) {
    if (state.remaining === 0 && (last === undefined || state.resetsAt > last.resetsAt))
      last = state
  }
  return last
}
