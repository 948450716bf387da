/** The store of counters: what is used in the windows of an instant. Lines count; reading never does. */

import type { Counter, CounterState } from './rules/counter.ts'

export interface CounterStore {
  /**
   * The window of each counter at `now` (milliseconds since the epoch), in the given order. Returns
   * without a promise if all are known. Throws or rejects with `counters_unavailable` where they can't be
   * read, or are not counted, and nothing is to be allowed then.
   */
  read(
    counters: readonly Counter[],
    now: number,
  ): readonly CounterState[] | Promise<readonly CounterState[]>
}

/** What people ask for, who may wait for the shared store. */
export interface ResettableCounters extends CounterStore {
  /**
   * As `read`, but never from what this process received earlier: the shared store is asked. Without
   * a response within a second, as `read`. Also of limits on requests and on concurrency, with the requests
   * that are in progress.
   */
  readFresh(counters: readonly Counter[], now: number): Promise<readonly CounterState[]>
  /**
   * Begins the windows of these counters anew as of `at` (milliseconds since the epoch), each with `used`,
   * 0 by default: what ended by then belongs to the old ones, whoever tells of it. At most `maxResets`.
   * Rejects if the store is unavailable, where it may have been done, and without a database, where nothing
   * would remember it.
   */
  reset(counters: readonly Counter[], at: number, used?: number): Promise<void>
}

/** The most counters of one reset. */
export const maxResets = 64
