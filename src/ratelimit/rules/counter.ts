/**
 * Counters: one for each user, subscription, model and window (contract, 8.2), and for a key with
 * limits of its own one for each of its windows. What is counted comes from the lines of responses; limits on
 * requests, and on requests in progress, are compared with what is open, too, before a request is allowed. Which
 * window it is depends on the time alone (ratelimit/rules/windows.ts). Reading never counts, and counting never refuses.
 */

import type { Exact } from '../../formats/exact.ts'
import { counterKey, userInLines } from './counter-key.ts'
import { isWindowless, spanAt, type WindowedCounter } from './windows.ts'

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

/** Identifies all counters of a user's model in a subscription, independent of its limits. */
export function anyCounterOf(subscription: string, model: string, user: string): Counter {
  const owner = userInLines(user)
  const key = counterKey({ subscription, model, counted: '', user: owner })
  return { key, owner, window: { ms: 0 } }
}

/** What is known now of a counter, as it will be at a later instant if nothing more is counted. */
export function stateLater(counter: Counter, state: CounterState, at: number): CounterState {
  if (isWindowless(counter)) return { used: 0, resetsAt: at }
  if (at < state.resetsAt) return state
  return { used: 0, resetsAt: spanAt(counter.window, counter.owner, at).end }
}
