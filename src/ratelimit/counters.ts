/** The counters of a process: what is used in the windows of an instant. Lines count; reading never does. */

import { ServiceError } from '../formats/errors.ts'
import type { Exact } from '../formats/exact.ts'
import type { HoldStore } from './holds.ts'
import type { Counter, CounterState } from './rules/counter.ts'
import { kindOf, readCounterKey, subjectOf } from './rules/counter-key.ts'
import { noTokens } from './rules/hold.ts'
import { isOfRequests } from './rules/limit.ts'
import type { CounterReset } from './rules/windows.ts'
import type { ResetStore } from './sums/postgres-resets.ts'

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
  reset(counters: readonly Counter[], at: number, used?: Exact): Promise<void>
}

/** The most counters of one reset. */
export const maxResets = 64

type ReadFresh = ResettableCounters['readFresh']
type Holds = Pick<HoldStore, 'hold' | 'holdAlone'>

interface CountersOptions {
  /** What the sums of the gateway know. */
  readonly running: Pick<ResettableCounters, 'read' | 'readFresh'> & {
    readonly reset: (key: string, reset: CounterReset) => void
  }
  /** They have the requests that are in progress. */
  readonly holds: Holds
  /** Undefined without a database: every reset is then refused, because nobody else would hear of it. */
  readonly resets: Pick<ResetStore, 'write'> | undefined
}

/** The same with a shared store and without one. */
export function createCounters({ running, holds, resets }: CountersOptions): ResettableCounters {
  return {
    read: running.read,
    readFresh: withOpenRequests(running.readFresh, holds),
    async reset(counters, at, used = 0) {
      if (counters.length > maxResets) throw new RangeError(`more than ${maxResets} counters`)
      if (resets === undefined) throw new ServiceError('store_unavailable')
      const keys = counters.map(({ key }) => key)
      await resets.write(keys, at, used)
      // The database notifies other processes; the caller's process applies it at once.
      for (const key of keys) running.reset(key, { at, used })
    },
  }
}

/** As `readFresh`, and counters that requests take from are read from the holds, which know of both. */
export function withOpenRequests(readFresh: ReadFresh, holds: Holds): ReadFresh {
  async function readOpen(counters: readonly Counter[], now: number) {
    const asked = { ...noTokens, requestCounters: counters.map((each) => ({ ...each, limit: 1 })) }
    try {
      return await holds.hold(asked, now)
    } catch (error) {
      // What this process knows, as of other counters.
      if (holds.holdAlone === undefined) throw error
      return holds.holdAlone(asked, now)
    }
  }

  return async (counters, now) => {
    const bySubject = Map.groupBy(counters, (counter) =>
      countsRequests(counter) ? subjectOf(readCounterKey(counter.key)) : undefined,
    )
    const read = async ([subject, each]: readonly [string | undefined, Counter[]]) => {
      const isOpen = subject !== undefined
      const states = isOpen ? (await readOpen(each, now)).windows : await readFresh(each, now)
      return each.map(({ key }, i) => [key, states[i] as CounterState] as const)
    }
    // Lines are read in any case.
    const found = await Promise.all([...new Map([[undefined, []], ...bySubject])].map(read))
    const states = new Map(found.flat())
    return counters.map(({ key }) => states.get(key) as CounterState)
  }
}

/** Whether it counts requests, that have ended or are in progress. */
function countsRequests({ key }: Counter): boolean {
  return isOfRequests({ kind: kindOf(readCounterKey(key)) })
}
