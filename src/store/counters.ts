/** The store of counters: reading never counts, and adding never refuses. */

import type { Counter, CounterState } from '../core/decision/counter.ts'

/**
 * A response whose usage may be reported more than once, by the gateway's stream and by its usage
 * journal. It is counted once, whichever is first and however often it is reported.
 */
export interface Report {
  /** The gateway's request id. */
  readonly id: string
  /** When the response ended, by the gateway's clock (milliseconds since the epoch). */
  readonly endedAt: number
  /** Late reports of the stream are left to the journal; the journal's are always counted. */
  readonly by: 'stream' | 'journal'
  /**
   * Called when this report counts the response: once across all its reports and processes, either
   * at once or when the shared store has responded. Never called for a report that the store loses
   * with its data before it responds.
   */
  readonly onCounted?: () => void
}

/** How long a response is remembered; one that ended earlier is not counted any more. */
export const rememberedMs = 24 * 3_600_000
/**
 * How long after a response's end its report by the stream is still counted. Later ones are left to
 * the journal, so none waits here through an outage, and none is counted after it has been
 * forgotten.
 */
export const streamedWithinMs = 20_000
/**
 * Responses that ended more recently than this are never forgotten, because a stream may still
 * report them, by a clock that is off.
 */
export const minRememberedMs = 6 * streamedWithinMs

export interface CounterStore {
  /**
   * The open window of each counter, in the given order; undefined if none is open. Returns without
   * a promise if all are known. `now` in milliseconds since the epoch.
   */
  read(
    counters: readonly Counter[],
    now: number,
  ): readonly (CounterState | undefined)[] | Promise<readonly (CounterState | undefined)[]>
  /**
   * Adds tokens to each counter; opens a new window if none is open. With a `report`, tokens are
   * added only if this response has not been counted. A window is then opened as of the response's
   * end, and if that window is over already, the tokens are dropped. Uses `now`, which may be in
   * the past while a journal is replayed; shared counters use their own clock.
   */
  add(counters: readonly Counter[], tokens: number, now: number, report?: Report): void
}

/** How long Redis remembers a reset: longer than a response that ended before it may be reported. */
export const resetsKeptMs = rememberedMs + 3_600_000

/**
 * By how much a reset and a response may seem to be in the wrong order, by the clocks of gateway, process and
 * Redis. If more, a clock has stepped, and the response counts.
 */
export const resetSlackMs = 60_000

/** What people ask for, who may wait for the shared store. */
export interface ResettableCounters extends CounterStore {
  /**
   * As `read`, but never from what this process received earlier: the shared store is asked. Without
   * a response within a second, as `read`.
   */
  readFresh(
    counters: readonly Counter[],
    now: number,
  ): Promise<readonly (CounterState | undefined)[]>
  /**
   * Ends the windows of these counters as of `at` (milliseconds since the epoch): they are unused, and no
   * response that ended by then is added any more, whoever reports it. At most `maxResets`. Rejects if
   * the store is unavailable; it may then have been done.
   */
  reset(counters: readonly Counter[], at: number): Promise<void>
}

/** The most counters of one reset. */
export const maxResets = 64

/** Additional methods for the reader of a usage journal. */
export interface JournaledCounters extends CounterStore {
  /**
   * Whether this process is to read the journal for the next `ms`. One of the processes that share
   * their counters and the journal is, and it renews its claim before the time is over.
   */
  claimJournal(ms: number): Promise<boolean>
  /**
   * Resolves once everything added until now is stored: in Redis, if the counters are there, even
   * after a long outage. Rejects if the counters are stopped first.
   */
  kept(): Promise<void>
  /**
   * Forgets counted responses that ended before this time (milliseconds since the epoch), because
   * no journal will report them again. If the store is unavailable, they are forgotten next time.
   */
  forgetReports(endedBefore: number): Promise<void>
}
