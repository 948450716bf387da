/**
 * The increases in force as this process knows them. Their changes are in the revocation log, which each process
 * follows: it loads them before it reports that it has read the log.
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

/** Maximum number in force at a time: every process has all of them in memory. */
export const maxIncreases = 1_000

/** All reject if the database is unavailable; a change may then have been made. */
export interface IncreaseStore {
  /** Those that end after this time, the highest first. */
  read(after: number): Promise<readonly KeptIncrease[]>
  /** undefined: the maximum number is in force. */
  add(increase: NewIncrease): Promise<KeptIncrease | undefined>
  /** Ends an increase. undefined: there is none, or it has ended. */
  remove(id: string, now: number): Promise<KeptIncrease | undefined>
}

export type ActiveIncreases = ReturnType<typeof createActiveIncreases>

/** How far a clock may be set back without missing an increase that is in force again, in milliseconds. */
const clockStepMs = 600_000

/** `clock`: milliseconds since the epoch. */
export function createActiveIncreases(kept: IncreaseStore, clock: () => number) {
  let byId: ReadonlyMap<string, KeptIncrease> = new Map()
  let byCounter: Increases = new Map()
  /** When the last one ends. */
  let allOverAt = 0

  return {
    /**
     * Reads all increases again; rejects if the database is unavailable, when the known ones stay until they end. One
     * call at a time.
     */
    async follow(from: Pick<IncreaseStore, 'read'> = kept): Promise<void> {
      const read = await from.read(clock() - clockStepMs)
      // Keeps the object of a known increase, by which copies of limits are cached.
      const found = read.map((each) => byId.get(each.id) ?? each)
      byId = new Map(found.map((each) => [each.id, each]))
      byCounter = Map.groupBy(found, ({ counter }) => counter)
      allOverAt = found.reduce((last, { until }) => Math.max(last, until), 0)
    },
    /** The limit in force at `at`; without increases it costs a look-up in an empty map. */
    raise: (limit: CountedLimit, counter: string, at: number): CountedLimit =>
      raised(limit, counter, byCounter, at),
    /** The grant with its limits in force at `at`; the same object if none is increased. */
    raiseOf: <Grant extends Limited>(grant: Grant, at: number): Grant =>
      at >= allOverAt ? grant : withIncreases(grant, byCounter, at),
    /** Those in force according to the database. */
    list: (): Promise<readonly KeptIncrease[]> => kept.read(clock()),
    /** In force in a process once it has followed. undefined: the maximum number is in force. */
    add: kept.add,
    /** Takes effect likewise. undefined: there is none. */
    end: (id: string) => kept.remove(id, clock()),
  }
}
