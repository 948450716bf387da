/** Where counters are kept: read without counting, add without refusing. */

import type { Counter, CounterState } from '../core/counter.ts'

export interface CounterStore {
  /**
   * The open window of each counter, in the order asked; undefined where none is open. Answers
   * without a promise whenever it knows. `now` in milliseconds since the epoch.
   */
  read(
    counters: readonly Counter[],
    now: number,
  ): readonly (CounterState | undefined)[] | Promise<readonly (CounterState | undefined)[]>
  /** Adds tokens to each counter; a closed window is opened by this hit. */
  add(counters: readonly Counter[], tokens: number, now: number): void
}
