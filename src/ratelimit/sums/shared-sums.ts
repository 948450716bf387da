/**
 * The counters of one process: its gateway's exact sums, and the last reported sums of others. Every sum is absolute
 * and never decreases, so writes are idempotent: after a failure, at start, or to a store that has lost data, the same
 * sums are sent again.
 */

import { maxExact } from '../../formats/exact.ts'
import { type CounterList, isEnded, type LineUse, longMs, type WindowSums } from '../rules/sums.ts'
import { isWithin, knownUse, ownUseOf, type Tally, ticksBetween, toTick } from '../rules/tally.ts'
import { counterKeyOfWindow, type WindowedCounter } from '../rules/windows.ts'
import { createPartition, type Partition, type PartitionOptions } from './partition.ts'
import { maxSumsPerCall, type SumStore } from './sum-store.ts'

export interface SharedSumsOptions extends Omit<PartitionOptions, 'tag' | 'windows' | 'store'> {
  readonly sums: WindowSums
  /** Undefined if this gateway is alone. */
  readonly store: SumStore | undefined
  /** The hash tag of a counter, by its key. */
  readonly tagOf: (key: string) => string
  /** All hash tags. */
  readonly tags: readonly string[]
}

export type WindowUsage = ReturnType<SharedSums['read']>

/**
 * Windows in use are read in full this often, so that a store that loses data can get back what ended gateways had
 * counted.
 */
const wholeEveryMs = 60_000
/** A window without own use that is idle for this long is dropped, and read again when it is needed. */
const idleMs = 600_000
/** A window that was used this recently is in use. */
const inUseMs = 60_000

export type SharedSums = ReturnType<typeof createSharedSums>

/** Creates the counters; partition-sender.ts sends the partitions. */
export function createSharedSums(options: SharedSumsOptions) {
  const { sums, gateway, store, isWriter, tagOf, longSums, now, monotonic } = options
  const partitions = new Map<string, Partition>()
  /** Long windows that have changed since they were saved. */
  const unsaved = new Set<Tally>()
  if (store !== undefined) {
    for (const tag of options.tags) {
      const windows = () => windowsOf(tag)
      partitions.set(tag, createPartition({ ...options, store, tag, windows }))
    }
  }

  function* windowsOf(tag: string): Generator<Tally> {
    for (const tally of sums.all.values()) if (tagOf(counterKeyOfWindow(tally)) === tag) yield tally
  }

  function partitionOf(tally: Tally): Partition | undefined {
    return store === undefined ? undefined : partitions.get(tagOf(counterKeyOfWindow(tally)))
  }

  /** The window of a counter, which is marked as used now; `tick`: now, if the clock was read for several. */
  function use(counter: WindowedCounter, at: number, tick = toTick(monotonic())): Tally {
    const tally = sums.at(counter, at)
    tally.usedAt = tick
    return tally
  }

  /** With all calls at once, because a Check waits for them. */
  async function readWhole(tallies: Iterable<Tally>): Promise<void> {
    const calls: (Promise<unknown> | undefined)[] = []
    for (const [partition, own] of Map.groupBy(tallies, partitionOf)) {
      for (let from = 0; from < own.length; from += maxSumsPerCall) {
        calls.push(partition?.readWhole(own.slice(from, from + maxSumsPerCall)))
      }
    }
    await Promise.all(calls)
  }

  /** Some of the windows that are in use and were not read in full for a while. */
  function unread(): readonly Tally[] {
    const tick = toTick(monotonic())
    const found: Tally[] = []
    for (const tally of sums.all.values()) {
      const isDue = !isWithin(wholeEveryMs, tally.readAt, tick) && tally.isKnown
      const isInUse = isWithin(inUseMs, tally.usedAt, tick) && !isEnded(tally, now())
      if (isDue && isInUse && found.push(tally) === maxSumsPerCall) break
    }
    return found
  }

  return {
    partitions: partitions as ReadonlyMap<string, Partition>,
    /** Undefined without a store. */
    partitionOf: ({ key }: WindowedCounter): Partition | undefined => partitions.get(tagOf(key)),
    /** Counts a line, at its own time. */
    count(counted: LineUse): void {
      for (const tally of sums.count(counted, now())) {
        if (!isWriter()) continue
        partitionOf(tally)?.enqueue(tally)
        if (tally.ms >= longMs && longSums !== undefined) unsaved.add(tally)
      }
    },
    /** The windows of counters that are read together, in the same order. */
    talliesOf(counters: CounterList, at: number, tick: number): readonly Tally[] {
      const tallies = sums.allAt(counters, at)
      for (const tally of tallies) tally.usedAt = tick
      return tallies
    },
    /**
     * The known use of a counter's window; unless `isKnown`, `fetch` it first. Times in milliseconds since the epoch;
     * `tick`: now, if the clock was read for several.
     */
    read(counter: WindowedCounter, at: number, tick?: number) {
      const tally = use(counter, at, tick)
      return {
        /** The counter's key, `@` and the window's name. */
        id: tally.id,
        used: knownUse(tally),
        /** The part of `used` that this gateway has counted. */
        own: maxExact(ownUseOf(tally), tally.field),
        /** When it began or was last reset. */
        since: tally.since,
        resetsAt: tally.end,
        /** Whether the store was read for it. */
        isKnown: tally.isKnown || store === undefined,
        /** Age of the store's last report, in milliseconds; negative if it is too old to measure. */
        ageMs: ticksBetween(tally.reportedAt, tally.usedAt),
      }
    },
    /** Sends its sum with the next call. */
    enqueue: (tally: Tally): void => partitionOf(tally)?.enqueue(tally),
    /** Asks for its total with the next call; returns the partition that sends it. */
    requestTotal(counter: WindowedCounter, at: number): Partition | undefined {
      const tally = use(counter, at)
      const partition = partitionOf(tally)
      partition?.requestTotal(tally)
      return partition
    },
    /** Reads windows in full. Rejects if the store does not respond. */
    fetch: (counters: readonly WindowedCounter[], at: number): Promise<void> =>
      readWhole(new Set(counters.map((counter) => use(counter, at)))),
    /** Call it every second: reads windows in use again, as many as one call allows. */
    reread: (): Promise<void> => readWhole(unread()),
    /** Sends all sums again, as to an unknown store. */
    begin(): void {
      for (const partition of partitions.values()) partition.begin()
      if (longSums === undefined) return
      for (const tally of sums.own(now())) if (tally.ms >= longMs) unsaved.add(tally)
    },
    /**
     * Saves changed long windows to `longSums`, which outlives this disk and the store. What changes meanwhile is left
     * for the next call, so that it ends while lines arrive.
     */
    async saveLong(): Promise<void> {
      if (longSums === undefined) return
      for (const tally of unsaved) if (tally.among === undefined) unsaved.delete(tally)
      const changed = [...unsaved].filter((tally) => !isEnded(tally, now()))
      for (let from = 0; from < changed.length; from += maxSumsPerCall) {
        const batch = changed.slice(from, from + maxSumsPerCall)
        const rows = batch.map((tally) => ({ id: tally.id, end: tally.end, used: ownUseOf(tally) }))
        await longSums.save(gateway, rows)
        for (const [i, tally] of batch.entries()) {
          if (ownUseOf(tally) === rows[i]?.used) unsaved.delete(tally)
        }
      }
    },
    /** Drops windows that are over and, if the store can be read again, idle ones without own use. */
    sweep(canRead: boolean): void {
      const idleSince = canRead ? toTick(monotonic() - idleMs) : undefined
      sums.sweep(now(), idleSince)
    },
  }
}
