/** The counters of a process: the use of limits in the windows of an instant. Lines add to them; reading never does. */

import { ServiceError } from '../formats/errors.ts'
import type { ExactInt } from '../formats/exact.ts'
import type { HoldStore } from './holds.ts'
import type { Counter, CounterState } from './rules/counter.ts'
import { holdSubjectOf, limitKindOfKey, parseCounterKey } from './rules/counter-key.ts'
import { emptyHold } from './rules/hold.ts'
import { isRequestLimit } from './rules/limit.ts'
import type { CounterReset } from './rules/windows.ts'
import type { ResetStore } from './sums/postgres-resets.ts'

export interface CounterStore {
  /**
   * Reads the window of each counter at `now` (milliseconds since the epoch), in the given order. Returns without a
   * promise if all are known. Throws or rejects with `counters_unavailable` if they can't be read, or lines are not
   * counted: then allow no request.
   */
  read(
    counters: readonly Counter[],
    now: number,
  ): readonly CounterState[] | Promise<readonly CounterState[]>
}

/** For the API, whose callers can wait for the shared store. */
export interface ResettableCounters extends CounterStore {
  /**
   * Like `read`, but asks the shared store instead of using earlier reports. Falls back to `read` after a second
   * without a response. Includes limits on requests and on concurrency, with the requests in progress.
   */
  readFresh(counters: readonly Counter[], now: number): Promise<readonly CounterState[]>
  /**
   * Begins new windows of these counters at `at` (milliseconds since the epoch), each with `used`, 0 by default: a
   * response that ended by then counts in the old window, whenever its line is read. At most `maxResets`. Rejects if
   * the database, which records resets, is unavailable (the reset may then have been made) or missing.
   */
  reset(counters: readonly Counter[], at: number, used?: ExactInt): Promise<void>
}

/** The maximum number of counters in one reset. */
export const maxResets = 64

type ReadFresh = ResettableCounters['readFresh']
type Holds = Pick<HoldStore, 'hold' | 'holdAlone'>

interface CountersOptions {
  /** The sums of the gateway. */
  readonly running: Pick<ResettableCounters, 'read' | 'readFresh'> & {
    readonly reset: (key: string, reset: CounterReset) => void
  }
  /** The requests in progress. */
  readonly holds: Holds
  /** Undefined without a database: every reset is then refused, because it would not reach other processes. */
  readonly resets: Pick<ResetStore, 'write'> | undefined
}

function refuse(): never {
  throw new ServiceError('counters_unavailable')
}

/** For a process without lines: nothing is counted, so nothing that is limited may be allowed. */
export const refusingCounters: {
  readonly counters: ResettableCounters
  readonly holds: HoldStore
} = {
  counters: { read: refuse, readFresh: async () => refuse(), reset: async () => refuse() },
  holds: { hold: refuse, release() {}, undo() {}, renew() {} },
}

/** Works alike with a shared store and without one. */
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

/** Extends `readFresh`: counters of requests are read from the holds, which include requests in progress. */
export function withOpenRequests(readFresh: ReadFresh, holds: Holds): ReadFresh {
  async function readOpen(counters: readonly Counter[], now: number) {
    const asked = { ...emptyHold, requestCounters: counters.map((each) => ({ ...each, limit: 1 })) }
    try {
      return await holds.hold(asked, now)
    } catch (error) {
      // Falls back to the state known to this process, as for other counters.
      if (holds.holdAlone === undefined) throw error
      return holds.holdAlone(asked, now)
    }
  }

  return async (counters, now) => {
    // Limits on requests, ended or in progress, have a subject here.
    const bySubject = Map.groupBy(counters, ({ key }) => {
      const parts = parseCounterKey(key)
      return isRequestLimit({ kind: limitKindOfKey(parts) }) ? holdSubjectOf(parts) : undefined
    })
    const read = async ([subject, each]: readonly [string | undefined, Counter[]]) => {
      const isOpen = subject !== undefined
      const states = isOpen ? (await readOpen(each, now)).windows : await readFresh(each, now)
      return each.map(({ key }, i) => [key, states[i] as CounterState] as const)
    }
    // Always reads the group of tokens, so that new lines are read.
    const found = await Promise.all([...new Map([[undefined, []], ...bySubject])].map(read))
    const states = new Map(found.flat())
    return counters.map(({ key }) => states.get(key) as CounterState)
  }
}
