/** Where counters are kept: read without counting, add without refusing. */

import type { Counter, CounterState } from '../core/counter.ts'

/**
 * A response whose usage may be told of more than once, by the gateway's stream and by its usage
 * journal: it is counted once, whichever comes first and however often it is told.
 */
export interface Report {
  /** The gateway's request id. */
  readonly id: string
  /** When the response ended, by the gateway's clock (milliseconds since the epoch). */
  readonly endedAt: number
  /** What comes late by the stream is left to the journal; the journal is always taken. */
  readonly by: 'stream' | 'journal'
}

export interface CounterStore {
  /**
   * The open window of each counter, in the order asked; undefined where none is open. Answers
   * without a promise whenever it knows. `now` in milliseconds since the epoch.
   */
  read(
    counters: readonly Counter[],
    now: number,
  ): readonly (CounterState | undefined)[] | Promise<readonly (CounterState | undefined)[]>
  /**
   * Adds tokens to each counter; a closed window is opened by this hit. With a `report` they are
   * added unless this response has been counted before, and tokens whose window is over by now
   * (it ended more than a window's length ago) count for nothing.
   */
  add(counters: readonly Counter[], tokens: number, now: number, report?: Report): void
}

/** What the reader of a usage journal needs of a store besides. */
export interface JournaledCounters extends CounterStore {
  /**
   * Whether this process is to read the journal of this name for the next `ms`: of processes that
   * share their counters one is, and asks again before the time is over.
   */
  claimJournal(name: string, ms: number): Promise<boolean>
  /** Settles once all that was added until now is kept: by Redis, where the counters are there. */
  kept(): Promise<void>
  /**
   * Forgets which of the responses were counted that ended before then (milliseconds since the
   * epoch): nobody will tell of them again.
   */
  forgetReports(endedBefore: number): Promise<void>
}
