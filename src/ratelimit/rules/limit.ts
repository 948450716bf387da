/** Limits in force, and their states. */

import { type ExactInt, subtractExact } from '../../formats/exact.ts'
import type { LimitKind, LimitScope, NamedLimit } from '../../kinds/limits.ts'
import type { Limit } from '../../kinds/resources.ts'
import type { Counter, CounterState } from './counter.ts'
import type { Window } from './windows.ts'

/**
 * A limit in force on a model under a subscription, with the key prefix of its counters. A limit on concurrency has no
 * window: its length is 0, its text empty.
 */
export interface CountedLimit extends Omit<Limit, 'limit'> {
  /** In tokens, requests, or nano-units of money. */
  readonly limit: ExactInt
  readonly kind: LimitKind
  /** Determines whose use is counted together. */
  readonly scope: LimitScope
  /** The kind of the resource that sets it. Callers see no figures of limits of a model or the Tenant. */
  readonly origin: 'subscription' | 'model' | 'tenant' | 'key'
  /** Its name in `limits[]`, or undefined without a name. */
  readonly limitName: string | undefined
  /** The models that it names and counts together. */
  readonly models?: NamedLimit['models']
  /** Its windows, as in its counters. */
  readonly parsedWindow: Window
  /** The counter, if all requests have the same one. */
  readonly counter: Required<Counter> | undefined
  /** Its name in the `RateLimit` fields. */
  readonly name: string
  /** The keys of its counters without the user or the group. */
  readonly keyPrefix: string
  /**
   * Its item of the `RateLimit-Policy` field (draft-ietf-httpapi-ratelimit-headers): name, quota, unit (the draft's
   * default is requests) and seconds. Empty if these fields leave it out.
   */
  readonly policy: string
  /** When its increase ends, in milliseconds since the epoch, or undefined if it has none. */
  readonly increasedUntil?: number
}

/** Whether the limit is on requests, which are counted before they are allowed. */
export function isRequestLimit({ kind }: Pick<CountedLimit, 'kind'>): boolean {
  return kind === 'requests' || kind === 'concurrency'
}

type Limits = readonly CountedLimit[]

const joined = new WeakMap<Limits, WeakMap<Limits, Limits>>()

/** The limits of a model followed by a key's; the same list for the same two. */
export function joinLimits(shared: Limits, own: Limits): Limits {
  const byShared = joined.get(own) ?? new WeakMap<Limits, Limits>()
  const both = byShared.get(shared) ?? [...shared, ...own]
  joined.set(own, byShared.set(shared, both))
  return both
}

/** The windows of limits without a name, as in lines: the text, and the member with it. */
interface WindowsText {
  /** Windows of tokens, then of requests: `60000,3600000/60000`. */
  readonly text: string
  readonly member: string
}

const written = new WeakMap<Limits, WindowsText>()

/**
 * The windows for the line, so that responses count in the limits with which they were admitted. The same object for
 * the same list.
 */
export function windowsText(limits: Limits): WindowsText {
  const known = written.get(limits)
  if (known !== undefined) return known
  const of = (kind: LimitKind) =>
    limits
      .filter((limit) => limit.kind === kind && limit.limitName === undefined)
      .map(({ windowMs }) => windowMs)
      .join(',')
  const text = `${of('tokens')}/${of('requests')}`
  const found = { text, member: `"windows":"${text}"` }
  written.set(limits, found)
  return found
}

/** The state of a limit for one user. */
export interface LimitState {
  readonly limit: CountedLimit
  /** For requests, includes those in progress. */
  readonly used: ExactInt
  readonly remaining: ExactInt
  /** Tokens that requests in progress are expected to use, which are subtracted from `remaining`. */
  readonly held?: number
  /** Milliseconds since the epoch; for concurrency, the time of reading. */
  readonly resetsAt: number
}

/** The states of limits, from the states of their counters in the same order. */
export function limitStates(
  limits: readonly CountedLimit[],
  counters: readonly CounterState[],
  now: number,
): readonly LimitState[] {
  return limits.map((limit, i) => {
    const { used, resetsAt, held } = counters[i] as CounterState
    const rest = used < limit.limit ? subtractExact(limit.limit, used) : 0
    if (limit.kind === 'concurrency') return { limit, used, remaining: rest, resetsAt: now }
    if (held === undefined) return { limit, used, remaining: rest, resetsAt }
    const remaining = rest > held ? subtractExact(rest, held) : 0
    return { limit, used, remaining, held, resetsAt }
  })
}

/** The spent limit to wait for, whose window ends last, or undefined if none is spent. */
export function lastSpentLimit(states: readonly LimitState[]): LimitState | undefined {
  let last: LimitState | undefined
  for (const state of states) {
    if (state.remaining === 0 && (last === undefined || state.resetsAt > last.resetsAt))
      last = state
  }
  return last
}
