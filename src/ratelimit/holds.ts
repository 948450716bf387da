/**
 * Holds: what open requests are expected to use of limits, beside the counters of what has been used.
 * The counters alone say what is charged; a hold only takes room until its response has been counted.
 * One rule for tokens, requests and concurrency: used + held + asked <= limit. An open request holds one of each
 * limit on requests until its line counts one there, and one of each limit on concurrency until it ends.
 */

import type { Counter } from './rules/counter.ts'
import type { Growth } from './rules/estimates/log-histogram.ts'
import type { Hold, HoldAnswer } from './rules/hold.ts'

/**
 * Exactly once: a hold changes the sums once when it is taken and once when it ends, however often
 * and in whatever order it is taken, released and expires. What is refused changes nothing.
 */
export interface HoldStore {
  /**
   * Decides, and holds all or nothing; a refused asker that asks again does so under another name, because what it was
   * granted in part may still be on its way back. Returns without a promise if nothing must be fetched; rejects
   * if the store does not respond. `now`, in milliseconds since the epoch, tells the windows; leases of a shared
   * store are by its own clock.
   */
  hold(asked: Hold, now: number): HoldAnswer | Promise<HoldAnswer>
  /** The same in this process alone, for while a shared store does not respond. */
  holdAlone?(asked: Hold, now: number): HoldAnswer | Promise<HoldAnswer>
  /**
   * Ends a hold, once its response is in the counters. May be called for a request without one, by
   * any process.
   */
  release(counters: readonly Counter[], id: string): void
  /**
   * Takes back what an asker was given, which has not been read. The hold ends if nobody else has asked for
   * it: a gateway that waits for a response asks again, and reads only one of both.
   */
  undo(counters: readonly Counter[], id: string, asker: string): void
  /**
   * Follows a request that still runs: its hold lasts `leaseMs` from now, and grows to the output
   * that is now expected, at most to its ceiling. Nothing, if it holds nothing. Lost if the store does not respond.
   */
  renew(counters: readonly Counter[], id: string, output: Growth, now: number): void
}
