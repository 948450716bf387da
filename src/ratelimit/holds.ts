/**
 * Holds: what open requests are expected to use of limits, beside the counters of what has been used.
 * The counters alone say what is charged; a hold only takes room until its response has been counted.
 * One rule for tokens, requests and concurrency: used + held + asked <= limit. An open request holds one of each
 * limit on requests until its line counts one there, and one of each limit on concurrency until it ends.
 */

import type { Counter, CounterState } from './rules/counter.ts'
import type { Expected } from './rules/estimates/estimator.ts'
import type { Moments } from './rules/estimates/shape.ts'

export interface AskedHold {
  /** The gateway's request id; undefined: only decide, hold nothing. */
  readonly id: string | undefined
  /** Tells apart those that ask for the same request, for `undo`; no spaces and colons. */
  readonly asker?: string | undefined
  /** Those of the token limits, all of which must have room, each with its limit. */
  readonly counters: readonly Required<Counter>[]
  /** Those that the request takes one of; those with windows of 0 ms are of concurrency. */
  readonly taken?: readonly Required<Counter>[]
  readonly expected: Expected
  /** Share of a limit by which the ceilings of all open requests may pass it. */
  readonly overshoot: number
  /** Whether the request can be given a ceiling. */
  readonly canCap: boolean
  /**
   * Of tokens. `admission`: it binds the windows of this instant. `end`: it binds every window until it is
   * released. One of requests binds the window of this instant, of concurrency there is none.
   */
  readonly charge: 'admission' | 'end'
}

export interface HoldAnswer {
  readonly outcome: 'held' | 'busy' | 'spent'
  /** If held: the output tokens that it may have; Infinity: no ceiling. */
  readonly cap: number
  /** If busy: the open requests of the counter that has most of them. */
  readonly open?: number
  /**
   * The windows at that instant in the order of the counters, then of what is taken, with this hold. Of what is
   * taken, `used` has the open requests, too.
   */
  readonly windows: readonly CounterState[]
}

/**
 * Exactly once: a hold changes the sums once when it is taken and once when it ends, however often
 * and in whatever order it is taken, released and expires. What is refused changes nothing.
 */
export interface HoldStore {
  /**
   * Decides, and holds all or nothing. Returns without a promise if nothing must be fetched; rejects
   * if the store does not respond. `now`, in milliseconds since the epoch, tells the windows; leases of a shared
   * store are by its own clock.
   */
  hold(asked: AskedHold, now: number): HoldAnswer | Promise<HoldAnswer>
  /** The same in this process alone, for while a shared store does not respond. */
  holdAlone?(asked: AskedHold, now: number): HoldAnswer | Promise<HoldAnswer>
  /**
   * Ends a hold, once its response is in the counters. May be called for a request without one, by
   * any process.
   */
  release(counters: readonly Counter[], id: string): void
  /**
   * Takes back what an asker was given, which has not been read. The hold ends if nobody else has asked for
   * it: a gateway that waits for an answer asks again, and reads only one of both.
   */
  undo(counters: readonly Counter[], id: string, asker: string): void
  /**
   * Follows a request that still runs: its hold lasts `leaseMs` from now, and grows to the output
   * that is now expected, at most to its ceiling; the variance is that of input and output. Nothing, if it
   * holds nothing. Lost if the store does not respond.
   */
  renew(counters: readonly Counter[], id: string, output: Moments, now: number): void
}
