/**
 * Counters of this process, shared with others on the machine: it executes the commands for which
 * Redis has scripts, in memory. The other processes have a local view and a batch sender, as over
 * Redis (redis/counters.ts). Their batches go into the table that this process counts in itself, so
 * a response reported by a worker's stream and by this process's journal is counted once.
 *
 * The table lives as long as this process, and no client outlives it, so it has one epoch and
 * nothing is ever restored.
 */

import { addLate, addTo, type Counter, openAt } from '../../core/counter.ts'
import { type CounterTable, createMemoryCounters } from './memory.ts'
import type { AddAnswer, CounterAnswer, CounterCommands } from './redis/scripts.ts'

export interface CounterOwnerOptions {
  readonly table: CounterTable
  /** Milliseconds since the epoch, as for other users of the table. */
  readonly clock: () => number
  /** The same from a monotonic clock: the delay of a batch is a difference of two of these. */
  readonly steady?: () => number
}

type Arg = string | number

/** The last batch of a sender. */
interface Mark {
  readonly number: number
  readonly counted: string
  readonly at: number
}

/** A sender repeats a batch within about a second; one that is gone is forgotten. */
const markMs = 3_600_000
/**
 * Arguments of `addScript`: number, least mark, how long the mark is kept, sent at, epoch, journal,
 * counters.
 */
const headArgs = 7
/** Fields of a report in the list: place, member, its set, a neighbour's, tokens, end, counters. */
const reportFields = 7

/** The commands of a store over this table, each executed at once. */
export function createCounterOwner(options: CounterOwnerOptions): CounterCommands {
  const { table, clock } = options
  const { windows, seen } = table
  const steady = options.steady ?? (() => performance.timeOrigin + performance.now())
  const sweeper = createMemoryCounters(table)
  const marks = new Map<string, Mark>()
  const store = ['epoch', String(Math.round(steady() * 1_000))]

  function head(): [time: number, store: readonly string[]] {
    return [Math.floor(steady()), store]
  }

  function pushSums(answer: Arg[], counters: readonly Counter[], now: number): void {
    for (const { key, windowMs } of counters) {
      const open = openAt(windows.get(key), windowMs, now)
      answer.push(open?.used ?? 0, open === undefined ? -2 : Math.ceil(open.resetsAt - now))
    }
  }

  function addTokens(
    { key, windowMs }: Counter,
    tokens: number,
    leftMs: number,
    now: number,
  ): void {
    if (tokens === 0) return
    const open = openAt(windows.get(key), windowMs, now)
    if (open !== undefined) windows.set(key, addTo(open, tokens, windowMs, now))
    else if (leftMs > 0) windows.set(key, { used: tokens, resetsAt: now + leftMs })
  }

  /**
   * Counts the responses that are reported for the first time; returns the places of those reports.
   */
  function addReports(
    list: readonly Arg[],
    counters: readonly Counter[],
    late: number,
    now: number,
  ): readonly number[] {
    const counted: number[] = []
    for (let at = 0; at < list.length; ) {
      const place = Number(list[at])
      const member = list[at + 1]
      const tokens = Number(list[at + 4])
      const endedAt = list[at + 5]
      const first = at + reportFields
      at = first + 2 * Number(list[at + 6])
      if (!seen.isNewMember(String(member), Number(endedAt), now)) continue
      counted.push(place)
      for (let i = first; i < at; i += 2) {
        const { key, windowMs } = counters[Number(list[i]) - 1] as Counter
        const leftMs = Number(list[i + 1]) - late
        const after = addLate(
          openAt(windows.get(key), windowMs, now),
          tokens,
          windowMs,
          now,
          now + leftMs - windowMs,
        )
        if (after !== undefined) windows.set(key, after)
      }
    }
    return counted
  }

  function forgetMarks(now: number): void {
    for (const [name, { at }] of marks) if (now - at > markMs) marks.delete(name)
  }

  return {
    session: 1,
    async add([, mark = '', ...keys], args): Promise<AddAnswer> {
      const now = clock()
      // Sweeps if it is due.
      sweeper.read([], now)
      const count = Number(args[headArgs - 1])
      const counters = keys.slice(0, count).map(toCounter)
      const sentAt = Number(args[3])
      const late = sentAt === 0 ? 0 : Math.max(0, Math.floor(steady()) - sentAt)
      const number = Number(args[0])
      const list = args[headArgs + 2 * count + 2]
      let { counted = '' } = marks.get(mark) ?? {}
      if (number > (marks.get(mark)?.number ?? 0)) {
        for (const [i, counter] of counters.entries()) {
          const at = headArgs + 2 * i
          addTokens(counter, Number(args[at]), Number(args[at + 1]) - late, now)
        }
        const reports = list === undefined ? [] : (JSON.parse(String(list)) as Arg[])
        counted = addReports(reports, counters, late, now).join(',')
        if (!marks.has(mark)) forgetMarks(steady())
        marks.set(mark, { number, counted, at: steady() })
      }
      const answer: Arg[] = []
      pushSums(answer, counters, now)
      if (list !== undefined) answer.push(counted)
      return [...head(), ...answer] as unknown as AddAnswer
    },
    async read([, , ...keys]): Promise<CounterAnswer> {
      const answer: number[] = []
      pushSums(answer, keys.map(toCounter), clock())
      return [...head(), ...answer]
    },
    async restore([, , ...keys]): Promise<CounterAnswer> {
      if (keys.length > 0) throw new Error('counters of this process cannot have been lost')
      return head()
    },
    // Only this process reads the journal.
    claim: async () => 0,
    forget: async () => 0,
  }
}

/** The counter of a key with its prefix in Redis. */
function toCounter(written: string): Counter {
  const key = written.slice(written.indexOf('}:') + 2)
  return { key, windowMs: windowMsOf(key) }
}

/** The third line of a counter's key (core/counter.ts). */
function windowMsOf(key: string): number {
  const begin = key.indexOf('\n', key.indexOf('\n') + 1) + 1
  return Number(key.slice(begin, key.indexOf('\n', begin)))
}
