/**
 * Counters of this process, shared with others on the machine: it executes the commands for which
 * Redis has scripts, in memory. The other processes have a local view and a batch sender, as over
 * Redis (redis/counters.ts). Their batches go into the table that this process counts in itself, so
 * a response reported by a worker's stream and by this process's journal is counted once.
 *
 * The table lives as long as this process, and no client outlives it, so it has one epoch and
 * nothing is ever restored.
 */

import { addLate, addTo, type Counter, type CounterState, openAt } from '../../core/counter.ts'
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

  /** The open windows of these counters. */
  function openWindows(
    counters: readonly Counter[],
    now: number,
  ): readonly (CounterState | undefined)[] {
    return counters.map(({ key, windowMs }) => openAt(windows.get(key), windowMs, now))
  }

  function pushSums(
    answer: Arg[],
    states: readonly (CounterState | undefined)[],
    now: number,
  ): void {
    for (const open of states) {
      answer.push(open?.used ?? 0, open === undefined ? -2 : Math.ceil(open.resetsAt - now))
    }
  }

  /** The window after these tokens, which open one for `leftMs` if none is open. */
  function afterTokens(
    open: CounterState | undefined,
    { windowMs }: Counter,
    tokens: number,
    leftMs: number,
    now: number,
  ): CounterState | undefined {
    if (tokens === 0) return open
    if (open !== undefined) return addTo(open, tokens, windowMs, now)
    return leftMs > 0 ? { used: tokens, resetsAt: now + leftMs } : undefined
  }

  /**
   * Adds the responses that are reported for the first time to the windows of these counters;
   * returns the places of those reports.
   */
  function addReports(
    list: readonly Arg[],
    counters: readonly Counter[],
    states: (CounterState | undefined)[],
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
        const index = Number(list[i]) - 1
        const { windowMs } = counters[index] as Counter
        const leftMs = Number(list[i + 1]) - late
        states[index] = addLate(states[index], tokens, windowMs, now, now + leftMs - windowMs)
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
      const list = args[headArgs + 2 * count + 2] as readonly Arg[] | undefined
      const states = openWindows(counters, now)
      let { counted = '' } = marks.get(mark) ?? {}
      let after = states
      if (number > (marks.get(mark)?.number ?? 0)) {
        const added = counters.map((counter, i) => {
          const at = headArgs + 2 * i
          return afterTokens(states[i], counter, Number(args[at]), Number(args[at + 1]) - late, now)
        })
        if (list !== undefined) counted = addReports(list, counters, added, late, now).join(',')
        for (const [i, { key }] of counters.entries()) {
          const state = added[i]
          if (state !== undefined && state !== states[i]) windows.set(key, state)
        }
        after = added
        if (!marks.has(mark)) forgetMarks(steady())
        marks.set(mark, { number, counted, at: steady() })
      }
      const answer: Arg[] = []
      pushSums(answer, after, now)
      if (list !== undefined) answer.push(counted)
      return [...head(), ...answer] as unknown as AddAnswer
    },
    async read([, , ...keys]): Promise<CounterAnswer> {
      const answer: number[] = []
      const now = clock()
      pushSums(answer, openWindows(keys.map(toCounter), now), now)
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

function toCounter(key: string): Counter {
  return { key, windowMs: windowMsOf(key) }
}

/** The third line of a counter's key (core/counter.ts). */
function windowMsOf(key: string): number {
  const begin = key.indexOf('\n', key.indexOf('\n') + 1) + 1
  return Number(key.slice(begin, key.indexOf('\n', begin)))
}
