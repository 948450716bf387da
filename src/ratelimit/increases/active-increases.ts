/**
 * The increases in force as this process knows them. What changes them is in the log of revocations, which each process
 * follows: it reads them before it says that it has read the log.
 */

import {
  type Increase,
  type Increases,
  type Limited,
  raised,
  withIncreases,
} from '../rules/increases.ts'
import type { CountedLimit } from '../rules/limit.ts'

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

/** All reject if the database is unavailable; a change may then have been made. */
export interface IncreaseStore {
  /** Those that are over after this time, the highest first. */
  read(after: number): Promise<readonly KeptIncrease[]>
  /** undefined: as many as may be are in force. */
  add(increase: NewIncrease): Promise<KeptIncrease | undefined>
  /** Ends it. undefined: there is none, or it is over. */
  remove(id: string, now: number): Promise<KeptIncrease | undefined>
}

export type ActiveIncreases = ReturnType<typeof createActiveIncreases>

/** By how much a clock may be set back without an increase that is in force again being missed. */
const clockStepMs = 600_000

/** `clock`: milliseconds since the epoch. */
export function createActiveIncreases(kept: IncreaseStore, clock: () => number) {
  let byId: ReadonlyMap<string, KeptIncrease> = new Map()
  let byCounter: Increases = new Map()
  /** When the last one is over. */
  let allOverAt = 0

  return {
    /**
     * Reads all of them again; rejects if the database is unavailable, and those that are known stay until they are over.
     * One call at a time.
     */
    async follow(from: Pick<IncreaseStore, 'read'> = kept): Promise<void> {
      const read = await from.read(clock() - clockStepMs)
      // The same object for the same increase: copies of its limits are cached by it.
      const found = read.map((each) => byId.get(each.id) ?? each)
      byId = new Map(found.map((each) => [each.id, each]))
      byCounter = Map.groupBy(found, ({ counter }) => counter)
      allOverAt = found.reduce((last, { until }) => Math.max(last, until), 0)
    },
    /** The limit as it holds at `at`; without increases it costs a look-up in an empty map. */
    raise: (limit: CountedLimit, counter: string, at: number): CountedLimit =>
      raised(limit, counter, byCounter, at),
    /** The grant with its limits as they hold at `at`; the same object if none is raised. */
    raiseOf: <Grant extends Limited>(grant: Grant, at: number): Grant =>
      at >= allOverAt ? grant : withIncreases(grant, byCounter, at),
    /** Those in force in the database, not only here. */
    list: (): Promise<readonly KeptIncrease[]> => kept.read(clock()),
    /** In force in a process once it has followed. undefined: as many as may be are. */
    add: kept.add,
    /** Likewise over. undefined: there is none. */
    end: (id: string) => kept.remove(id, clock()),
  }
}
