/**
 * The reads of a Check: the known use of counters, without waiting, except for windows that were never read. Makes the
 * next call to the store ask about windows whose last report is too old for their limit.
 */

import { ServiceError } from '../../formats/errors.ts'
import type { Counter, CounterState } from '../rules/counter.ts'
import { countSums } from '../rules/other-sums.ts'
import { isReported, isWithin, knownUse, type Tally, toTick } from '../rules/tally.ts'
import type { WindowedCounter } from '../rules/windows.ts'
import type { GatewaySums } from './gateway-sums.ts'
import type { LineWatch } from './line-watch.ts'
import type { Partition } from './partition.ts'
import type { PartitionSenders } from './partition-senders.ts'
import type { WindowUsage } from './shared-sums.ts'

export interface CounterReadsOptions {
  /** Milliseconds between two calls of a tag. */
  readonly flushMs: number
  /** Whether to allow or deny when a window was never read and the store does not respond. */
  readonly onLoss: 'allow' | 'deny'
  /** Whether lines are known to be lost: with `deny` nothing is allowed then. */
  readonly isFailing?: () => boolean
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
}

/** Maximum age of the cached state of a counter far from its limit, in milliseconds. */
const farMs = 80
/** Windows with more fields are read less often in proportion, because reading fields costs time. */
const fewFields = 20
const settled = Promise.resolve()

interface Asking {
  readonly counters: Counter[]
  readonly done: Promise<void>
}

export function createCounterReads(
  { flushMs, onLoss, isFailing = () => false, now, monotonic }: CounterReadsOptions,
  { shared, tail }: Pick<GatewaySums, 'shared' | 'tail'>,
  senders: PartitionSenders,
  lineWatch: Pick<LineWatch, 'noteCheck' | 'searchAgain'>,
) {
  const isAlone = shared.partitions.size === 0
  /** Whether a Check of this turn has read the end of the file. */
  let isRead = false
  /** Windows that are fetched in this turn, with one call for each partition. */
  const asking = new Map<Partition | undefined, Asking>()

  /** Reads new lines; with `deny`, throws `counters_unavailable` if lines are lost. */
  function readLines(): void {
    readEnd()
    if (onLoss === 'deny' && isFailing()) throw new ServiceError('counters_unavailable')
  }

  /** Reads the end of the file for a Check; if a file can't be read, the watch reports it. */
  function readEnd(): void {
    // Once per turn: requests that arrived together were all sent before the first is decided, and no others arrive
    // before the turn ends.
    if (isRead) return
    isRead = true
    void settled.then(endTurn)
    lineWatch.noteCheck()
    try {
      tail.readForCheck()
    } catch {
      lineWatch.searchAgain()
    }
  }

  function endTurn(): void {
    isRead = false
  }

  /** Maximum age of the cached state of this window, in milliseconds. */
  function maxAgeOf({ limit }: Counter, tally: Tally): number {
    const isNear = limit === undefined || Number(knownUse(tally)) >= Number(limit) / 2
    const ms = isNear ? flushMs : Math.max(flushMs, farMs)
    const fields = countSums(tally.fields)
    return fields > fewFields ? (ms * fields) / fewFields : ms
  }

  /** Schedules a call to the store if its last report of the window is too old. */
  function keepFresh(counter: Counter, tally: Tally, at: number): void {
    const maxAgeMs = maxAgeOf(counter, tally)
    if (isWithin(maxAgeMs, tally.reportedAt, tally.usedAt)) return
    senders.arm(shared.requestTotal(counter, at), Math.max(1, maxAgeMs / flushMs))
  }

  function stateOf(tally: Tally): CounterState {
    return { used: knownUse(tally), resetsAt: tally.end }
  }

  function fetch(partition: Partition | undefined, counters: readonly Counter[]): Promise<void> {
    const { counters: all, done } = asking.get(partition) ?? ask(partition)
    all.push(...counters)
    return done
  }

  function ask(partition: Partition | undefined): Asking {
    const all: Counter[] = []
    const done = new Promise<void>((settle) => setImmediate(settle)).then(() => {
      asking.delete(partition)
      return shared.fetch(all, now()).catch((error: unknown) => {
        // Until a call succeeds, other requests need not wait in vain.
        senders.noteOutcome(partition, error)
        throw error
      })
    })
    const begun = { counters: all, done }
    asking.set(partition, begun)
    return begun
  }

  function decideWithout(known: readonly CounterState[]): readonly CounterState[] {
    // Without a cause, which is logged once when the store becomes unavailable, not for each request.
    if (onLoss === 'deny') throw new ServiceError('counters_unavailable')
    return known
  }

  function read(
    counters: readonly Counter[],
    at: number,
  ): readonly CounterState[] | Promise<readonly CounterState[]> {
    readLines()
    const tick = toTick(monotonic())
    const tallies = shared.talliesOf(counters, at, tick)
    const known = tallies.map(stateOf)
    if (isAlone) return known
    const missing: Counter[] = []
    for (const [i, counter] of counters.entries()) {
      const tally = tallies[i] as Tally
      if (tally.isKnown && (isReported(tally) || !senders.isAway(shared.partitionOf(counter)))) {
        keepFresh(counter, tally, at)
      } else missing.push(counter)
    }
    if (missing.length === 0) return known
    const partitions = Map.groupBy(missing, shared.partitionOf)
    const there = [...partitions].filter(([partition]) => !senders.isAway(partition))
    if (there.length === 0 || (onLoss === 'deny' && there.length < partitions.size))
      return decideWithout(known)
    const fetches = there.map(([partition, own]) => fetch(partition, own))
    return Promise.allSettled(fetches).then((fetched) => {
      const found = shared.talliesOf(counters, at, toTick(monotonic())).map(stateOf)
      const isWhole = fetched.every(({ status }) => status === 'fulfilled')
      return isWhole ? found : decideWithout(found)
    })
  }

  return {
    /** The known use of these windows, without waiting, for holds. Throws like `read` if lines are lost. */
    windows(counters: readonly WindowedCounter[], at: number): readonly WindowUsage[] {
      readLines()
      const tick = toTick(monotonic())
      return counters.map((counter) => shared.read(counter, at, tick))
    },
    /**
     * The windows of these counters at this instant. Without a promise, unless one was never read. With `deny`, throws
     * or rejects with `counters_unavailable` if such a window can't be read, or lines are lost.
     */
    read,
    /** Like `read`, after the store has reported all of them. */
    async readFresh(counters: readonly Counter[], at: number): Promise<readonly CounterState[]> {
      await tail.readAll()
      await senders.refresh(counters.map((counter) => shared.requestTotal(counter, at)))
      return read(counters, at)
    },
  }
}
