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
  /**
   * Called when the response is counted by this report: once for all reports of it, in whichever
   * process; at once, or when the store that several share has answered. A report that the store
   * loses with its data, before it could answer, is called for by nobody.
   */
  readonly onCounted?: () => void
}

/** How long a response is remembered; one that ended longer ago is counted no more. */
export const rememberedMs = 24 * 3_600_000
/**
 * How long after a response's end its report by the stream is still counted. What takes longer is
 * left to the journal: so nothing waits here through an outage, and nothing is counted after it
 * has been forgotten.
 */
export const streamedWithinMs = 20_000
/**
 * Responses that ended less than this ago are never forgotten: a stream may be told of them yet, by
 * a clock that is off.
 */
export const leastRememberedMs = 6 * streamedWithinMs

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
   * added unless this response has been counted before. A window is then opened as of the
   * response's end, and where that leaves nothing of it the tokens count for nothing. By `now`,
   * which may be in the past where a journal is replayed; shared counters go by their own clock.
   */
  add(counters: readonly Counter[], tokens: number, now: number, report?: Report): void
}

/** What the reader of a usage journal needs of a store besides. */
export interface JournaledCounters extends CounterStore {
  /**
   * Whether this process is to read the journal for the next `ms`: of processes that share their
   * counters and the journal one is, and asks again before the time is over.
   */
  claimJournal(ms: number): Promise<boolean>
  /**
   * Settles once all that was added until now is kept: by Redis, where the counters are there,
   * through an outage of whatever length. Rejects when the counters are stopped before.
   */
  kept(): Promise<void>
  /**
   * Forgets which of the responses were counted that ended before then (milliseconds since the
   * epoch): no journal will tell of them again. What is out of reach is forgotten next time.
   */
  forgetReports(endedBefore: number): Promise<void>
}
