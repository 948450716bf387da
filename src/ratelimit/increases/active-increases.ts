/** The increases in force as this process knows them; others' changes are read within a second. */

import { createMutex } from '../../runtime/mutex.ts'
import type { CountedLimit } from '../rules/counter.ts'
import {
  type Increase,
  type Increases,
  type Limited,
  raised,
  withIncreases,
} from '../rules/increases.ts'

export interface NewIncrease extends Increase {
  readonly per: CountedLimit['scope']
  readonly reason: string
  readonly createdBy: string
  /** Milliseconds since the epoch. */
  readonly createdAt: number
}

export interface KeptIncrease extends NewIncrease {
  readonly id: string
}

/** The most that are in force at a time: every process has all of them in memory. */
export const maxIncreases = 1_000

/** What all processes read. All reject if the database is unavailable; a change may then have been made. */
export interface IncreaseStore {
  /** Those in force, the highest first. */
  read(now: number): Promise<readonly KeptIncrease[]>
  /** Tells all processes. undefined: as many as may be are in force. */
  add(increase: NewIncrease): Promise<KeptIncrease | undefined>
  /** Ends it, and tells all processes. undefined: there is none, or it is over. */
  remove(id: string, now: number): Promise<KeptIncrease | undefined>
}

export type ActiveIncreases = ReturnType<typeof createActiveIncreases>

/** `clock`: milliseconds since the epoch. */
export function createActiveIncreases(kept: IncreaseStore, clock: () => number) {
  const oneByOne = createMutex()
  let byId: ReadonlyMap<string, KeptIncrease> = new Map()
  let byCounter: Increases = new Map()

  /** Reads all of them again; rejects if the database is unavailable, and those that are known stay until they are over. */
  function follow(): Promise<void> {
    return oneByOne(async () => {
      // The same object for the same increase, by which its copies of limits are found.
      const found = (await kept.read(clock())).map((each) => byId.get(each.id) ?? each)
      byId = new Map(found.map((each) => [each.id, each]))
      byCounter = Map.groupBy(found, ({ counter }) => counter)
    })
  }

  return {
    follow,
    /** The limit as it holds at `at`; without increases it costs a look-up in an empty map. */
    raise: (limit: CountedLimit, counter: string, at: number): CountedLimit =>
      raised(limit, counter, byCounter, at),
    /** The grant with its limits as they hold at `at`; the same object if none is raised. */
    raiseOf: <Grant extends Limited>(grant: Grant, at: number): Grant =>
      withIncreases(grant, byCounter, at),
    /** Those in force in the database, not only here. */
    list: (): Promise<readonly KeptIncrease[]> => kept.read(clock()),
    /** In force here when it resolves. undefined: as many as may be are. */
    async add(increase: NewIncrease): Promise<KeptIncrease | undefined> {
      const added = await kept.add(increase)
      await follow()
      return added
    },
    /** Over here when it resolves. undefined: there is none. */
    async end(id: string): Promise<KeptIncrease | undefined> {
      const removed = await kept.remove(id, clock())
      await follow()
      return removed
    },
  }
}
