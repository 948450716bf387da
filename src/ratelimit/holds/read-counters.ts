/** Reads counters for people: those of requests and of concurrency with the requests that are in progress, which are with the holds. */

import type { CounterStore } from '../counters.ts'
import type { AskedHold, HoldAnswer, HoldStore } from '../holds.ts'
import type { Counter, CounterState } from '../rules/counter.ts'
import { kindOf, readCounterKey, subjectOf } from '../rules/counter-key.ts'

type Read = (counters: readonly Counter[], now: number) => Promise<readonly CounterState[]>
type Holds = Pick<HoldStore, 'hold' | 'holdAlone'>

/** As `readFresh`, and counters that requests take from are read from the holds, which know of both. */
export function withOpenRequests(
  readFresh: (...asked: Parameters<CounterStore['read']>) => Promise<readonly CounterState[]>,
  holds: Holds,
): Read {
  async function readOpen(counters: readonly Counter[], now: number): Promise<HoldAnswer> {
    const asked = { ...nothing, taken: counters.map((each) => ({ ...each, limit: 1 })) }
    try {
      return await holds.hold(asked, now)
    } catch (error) {
      // What this process knows, as of other counters.
      if (holds.holdAlone === undefined) throw error
      return holds.holdAlone(asked, now)
    }
  }

  return async (counters, now) => {
    const found = new Map<string, CounterState>()
    const rest = counters.filter((counter) => !isTakenFrom(counter))
    const bySubject = Map.groupBy(counters.filter(isTakenFrom), ({ key }) =>
      subjectOf(readCounterKey(key)),
    )
    const [states] = await Promise.all([
      readFresh(rest, now),
      ...[...bySubject.values()].map(async (each) => {
        const { windows } = await readOpen(each, now)
        for (const [i, { key }] of each.entries()) found.set(key, windows[i] as CounterState)
      }),
    ])
    for (const [i, { key }] of rest.entries()) found.set(key, states[i] as CounterState)
    return counters.map(({ key }) => found.get(key) as CounterState)
  }
}

/** Whether it counts requests, that have ended or are in progress. */
function isTakenFrom({ key }: Counter): boolean {
  return kindOf(readCounterKey(key)) !== 'tokens'
}

/** Only decides, and holds nothing. */
const nothing: AskedHold = {
  ...{ id: undefined, counters: [], overshoot: 0, canCap: false, charge: 'end' },
  expected: {
    input: 0,
    inputVariance: 0,
    output: 0,
    outputVariance: 0,
    floor: 0,
    beyondRoom: 0,
    isSeveral: false,
    least: 0,
    worst: 0,
  },
}
