/**
 * The increases in force, as known to this process. Changes are announced in the revocation log, which each process
 * follows: it loads the increases before it reports that it has read the log.
 */

import {
  type Increase,
  type Increases,
  limitInForce,
  type RequestLimits,
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

export interface StoredIncrease extends NewIncrease {
  readonly id: string
}

/** Maximum number in force at one time: every process has all of them in memory. */
export const maxIncreases = 1_000

/** All reject if the database is unavailable; a change may then have been made. */
export interface IncreaseStore {
  /** The increases that end after this time, the highest first. */
  read(after: number): Promise<readonly StoredIncrease[]>
  /** Resolves with undefined if the maximum number is in force. */
  add(increase: NewIncrease): Promise<StoredIncrease | undefined>
  /** Ends an increase. Resolves with undefined if there is none, or it has ended. */
  remove(id: string, now: number): Promise<StoredIncrease | undefined>
}

export type ActiveIncreases = ReturnType<typeof createActiveIncreases>

/** Maximum step of a clock that is set back after which an ended increase is in force again, in milliseconds. */
const clockStepMs = 600_000

/** `clock`: milliseconds since the epoch. */
export function createActiveIncreases(kept: IncreaseStore, clock: () => number) {
  let byId: ReadonlyMap<string, StoredIncrease> = new Map()
  let byCounter: Increases = new Map()
  /** When the last one ends. */
  let allOverAt = 0

  return {
    /**
     * Reads all increases again, one call at a time. Rejects if the database is unavailable; the known ones then stay
     * in force until they end.
     */
    async follow(from: Pick<IncreaseStore, 'read'> = kept): Promise<void> {
      const read = await from.read(clock() - clockStepMs)
      // A known increase keeps its object, because copies of limits are cached by it.
      const found = read.map((each) => byId.get(each.id) ?? each)
      byId = new Map(found.map((each) => [each.id, each]))
      byCounter = Map.groupBy(found, ({ counter }) => counter)
      allOverAt = found.reduce((last, { until }) => Math.max(last, until), 0)
    },
    /** The limit in force at `at`; without increases it costs a look-up in an empty map. */
    raise: (limit: CountedLimit, counter: string, at: number): CountedLimit =>
      limitInForce(limit, counter, byCounter, at),
    /** The grant with its limits in force at `at`; the same object if none is increased. */
    raiseOf: <Grant extends RequestLimits>(grant: Grant, at: number): Grant =>
      at >= allOverAt ? grant : withIncreases(grant, byCounter, at),
    /** The increases in force according to the database. */
    list: (): Promise<readonly StoredIncrease[]> => kept.read(clock()),
    /**
     * Adds an increase, which is in force in a process after its next `follow`. Undefined if the maximum number is in
     * force.
     */
    add: kept.add,
    /** Ends an increase, with effect from the next `follow`. Undefined if there is none. */
    end: (id: string) => kept.remove(id, clock()),
  }
}
