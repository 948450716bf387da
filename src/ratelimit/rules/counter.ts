/**
 * Counters: one for each user, subscription, model and window (contract, 8.2), and one for each window of a key's own
 * limits. Lines of responses add to them; limits on requests and on concurrency also include requests in progress,
 * before a request is allowed. The window depends on the time and the owner alone (ratelimit/rules/windows.ts). Reading
 * never counts, and counting never refuses.
 */

import type { ExactInt } from '../../formats/exact.ts'
import { counterKey, userInLines } from './counter-key.ts'
import { boundsAt, isWindowless, type WindowedCounter } from './windows.ts'

/**
 * A counter as stores address it. Its owner, which determines the phase of its windows, is the user as in lines, or a
 * key. A counter of concurrency has a window of 0 ms, and exists only in the holds.
 */
export interface Counter extends WindowedCounter {
  /** The limit that it is compared with. Near it, the use of other gateways is read more often. */
  readonly limit?: ExactInt
}

/** The use in a window, and its end in milliseconds since the epoch. */
export interface CounterState {
  readonly used: ExactInt
  readonly resetsAt: number
  /** Tokens that requests in progress are expected to use, or undefined if none. */
  readonly held?: number
}

/** Identifies all counters of a user, model and subscription, independent of limits. */
export function counterOfAnyLimit(subscription: string, model: string, user: string): Counter {
  const owner = userInLines(user)
  const key = counterKey({ subscription, model, counted: '', user: owner })
  return { key, owner, window: { ms: 0 } }
}

/** The state at a later instant, if nothing more is counted. */
export function counterStateAt(counter: Counter, state: CounterState, at: number): CounterState {
  if (isWindowless(counter)) return { used: 0, resetsAt: at }
  if (at < state.resetsAt) return state
  return { used: 0, resetsAt: boundsAt(counter.window, counter.owner, at).end }
}
