/** Reads counters for people: also those of requests in progress, which are with the holds. */

import type { Counter, CounterState } from '../../core/decision/counter.ts'
import type { ResettableCounters } from '../counters.ts'
import type { AskedHold, HoldAnswer, HoldStore } from '../holds.ts'

type Read = ResettableCounters['readFresh']

/** As `readFresh`, and counters without a window (0 ms) are read from the holds. */
export function withOpenRequests(readFresh: Read, holds: HoldStore): Read {
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
    const found = new Map<string, CounterState | undefined>()
    const [open, rest] = [true, false].map((isOpen) =>
      counters.filter(({ windowMs }) => (windowMs === 0) === isOpen),
    ) as [Counter[], Counter[]]
    const bySubject = Map.groupBy(open, ({ key }) => subjectOf(key))
    const [states] = await Promise.all([
      readFresh(rest, now),
      ...[...bySubject.values()].map(async (each) => {
        const { windows } = await readOpen(each, now)
        for (const [i, { key }] of each.entries()) found.set(key, windows[i])
      }),
    ])
    for (const [i, { key }] of rest.entries()) found.set(key, states[i])
    return counters.map(({ key }) => found.get(key))
  }
}

/** Subscription and user, whose holds are together: the first and the last part of a key. */
function subjectOf(key: string): string {
  const [subscription = '', model = '', part = ''] = key.split('\n', 3)
  return `${subscription}\n${key.slice(subscription.length + model.length + part.length + 3)}`
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
