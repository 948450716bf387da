/**
 * The counters of one process: what its gateway's lines add up to, exact, and what others have counted, as
 * last heard. Every sum is absolute and never goes down, so writing is repeating: after a failure, at a
 * start, or to a store that has lost data, the same sums are sent again.
 */

import { type Exact, greatest } from '../../formats/exact.ts'
import { type Counted, type CounterList, isOver, longMs, type Sums } from '../rules/sums.ts'
import { isWithin, ownOf, type Tally, ticksBetween, toTick, usedOf } from '../rules/tally.ts'
import { keyIn, type WindowedCounter } from '../rules/windows.ts'
import { createPart, type Part, type PartOptions } from './part.ts'
import { maxEntries, type SumStore } from './sum-store.ts'

export interface SharedSumsOptions extends Omit<PartOptions, 'tag' | 'windows' | 'store'> {
  readonly sums: Sums
  /** Undefined: this gateway is alone. */
  readonly store: SumStore | undefined
  /** The hash tag of a counter, by its key. */
  readonly tagOf: (key: string) => string
  /** All of them. */
  readonly tags: readonly string[]
}

/** What is known of a counter's window; if it is not, `fetch` it first. */
export interface WindowUsage {
  /** The counter's key, `@` and what the window is called. */
  readonly id: string
  readonly used: Exact
  /** How much of that is this gateway's own. */
  readonly own: Exact
  /** Milliseconds since the epoch. */
  readonly resetsAt: number
  /** Whether the store was asked about it. */
  readonly isKnown: boolean
  /** When it began, or was last reset; milliseconds since the epoch. */
  readonly since: number
  /** How long ago the store told of it, in milliseconds; below 0: longer than can be told. */
  readonly ageMs: number
}

/** Windows in use are read as a whole this often, so that the store can get back what ended gateways had counted. */
const wholeEveryMs = 60_000
/** A window of others that is unused for this long is read again when it is needed. */
const idleMs = 600_000
/** A window that was used this recently is in use. */
const inUseMs = 60_000

export type SharedSums = ReturnType<typeof createSharedSums>

/** part-sender.ts paces and sends the tags' parts. */
export function createSharedSums(options: SharedSumsOptions) {
  const { sums, gateway, store, isWriter, tagOf, longSums, now, monotonic } = options
  const parts = new Map<string, Part>()
  /** Long windows that have changed since they were saved. */
  const unsaved = new Set<Tally>()
  if (store !== undefined) {
    for (const tag of options.tags) {
      parts.set(tag, createPart({ ...options, store, tag, windows: () => windowsOf(tag) }))
    }
  }

  function* windowsOf(tag: string): Generator<Tally> {
    for (const tally of sums.all.values()) if (tagOf(keyIn(tally)) === tag) yield tally
  }

  function partOf(tally: Tally): Part | undefined {
    return store === undefined ? undefined : parts.get(tagOf(keyIn(tally)))
  }

  /** The window of a counter, as far as it is known; `tick`: now, if the clock was read for several. */
  function use(counter: WindowedCounter, at: number, tick = toTick(monotonic())): Tally {
    const tally = sums.at(counter, at)
    tally.usedAt = tick
    return tally
  }

  async function readWhole(tallies: Iterable<Tally>): Promise<void> {
    for (const [part, own] of Map.groupBy(tallies, partOf)) {
      for (let from = 0; from < own.length; from += maxEntries) {
        await part?.readWhole(own.slice(from, from + maxEntries))
      }
    }
  }

  /** Of windows that are in use and were not read for a while, some. */
  function unread(): readonly Tally[] {
    const tick = toTick(monotonic())
    const found: Tally[] = []
    for (const tally of sums.all.values()) {
      const isDue = !isWithin(wholeEveryMs, tally.readAt, tick) && tally.isKnown
      const isInUse = isWithin(inUseMs, tally.usedAt, tick) && !isOver(tally, now())
      if (isDue && isInUse && found.push(tally) === maxEntries) break
    }
    return found
  }

  return {
    parts: parts as ReadonlyMap<string, Part>,
    /** Undefined without a store. */
    partOf: ({ key }: WindowedCounter): Part | undefined => parts.get(tagOf(key)),
    /** Counts what a line has, at its own time. */
    count(counted: Counted): void {
      for (const tally of sums.count(counted, now())) {
        if (!isWriter()) continue
        partOf(tally)?.enter(tally)
        if (tally.ms >= longMs && longSums !== undefined) unsaved.add(tally)
      }
    },
    /** The windows of counters that are asked for together, in the same order. */
    talliesOf(counters: CounterList, at: number, tick: number): readonly Tally[] {
      const tallies = sums.allAt(counters, at)
      for (const tally of tallies) tally.usedAt = tick
      return tallies
    },
    /** What is used of a counter's window, as far as is known; `tick`: now, if the clock was read for several. */
    read(counter: WindowedCounter, at: number, tick?: number): WindowUsage {
      const tally = use(counter, at, tick)
      return {
        id: tally.id,
        used: usedOf(tally),
        own: greatest(ownOf(tally), tally.field),
        since: tally.since,
        resetsAt: tally.end,
        isKnown: tally.isKnown || store === undefined,
        ageMs: ticksBetween(tally.heardAt, tally.usedAt),
      }
    },
    /** Sends its sum with the next call. */
    enter: (tally: Tally): void => partOf(tally)?.enter(tally),
    /** Has it asked for its total with the next call; returns the part that sends it. */
    refresh(counter: WindowedCounter, at: number): Part | undefined {
      const tally = use(counter, at)
      const part = partOf(tally)
      part?.ask(tally)
      return part
    },
    /** Reads windows as a whole. Rejects if the store does not answer. */
    fetch: (counters: readonly WindowedCounter[], at: number): Promise<void> =>
      readWhole(new Set(counters.map((counter) => use(counter, at)))),
    /** To be called each second: reads again what is in use, at most one call's windows. */
    reread: (): Promise<void> => readWhole(unread()),
    /** Nothing is known of the store: it gets all sums. */
    begin(): void {
      for (const part of parts.values()) part.begin()
      if (longSums === undefined) return
      for (const tally of sums.own(now())) if (tally.ms >= longMs) unsaved.add(tally)
    },
    /** Saves long windows that have changed, at most one call's, where they outlive this disk and the store; returns how many are left. */
    async saveLong(): Promise<number> {
      for (const tally of unsaved) if (isOver(tally, now())) unsaved.delete(tally)
      const batch = [...unsaved].slice(0, maxEntries)
      if (longSums === undefined || batch.length === 0) return 0
      const rows = batch.map((tally) => ({ id: tally.id, end: tally.end, used: ownOf(tally) }))
      await longSums.save(gateway, rows)
      for (const [i, tally] of batch.entries()) {
        if (ownOf(tally) === rows[i]?.used) unsaved.delete(tally)
      }
      return unsaved.size
    },
    /** Drops windows that are over and, if they can be read again, those that only others have used. */
    sweep(canRead: boolean): void {
      const idleSince = canRead ? toTick(monotonic() - idleMs) : undefined
      sums.sweep(now(), idleSince)
    },
  }
}
