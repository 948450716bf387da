/** Counters in this process: the default; gone on restart, as the specification says. */

import { addTo, type CounterState, openAt } from '../core/counter.ts'
import type { CounterStore } from './counters.ts'

/** Adds between two sweeps of ended windows, so that memory follows the open ones. */
const addsPerSweep = 10_000

/** A CounterStore of one Map. `size` tells how many windows it holds, ended ones included. */
export function createMemoryCounters(): CounterStore & { readonly size: number } {
  const windows = new Map<string, CounterState>()
  let addsSinceSweep = 0

  function sweep(now: number): void {
    addsSinceSweep = 0
    for (const [key, { resetsAt }] of windows) if (now >= resetsAt) windows.delete(key)
  }

  return {
    get size() {
      return windows.size
    },
    read(counters, now) {
      return counters.map(({ key, windowMs }) => {
        const state = windows.get(key)
        const open = openAt(state, windowMs, now)
        if (open !== undefined && open !== state) windows.set(key, open)
        return open
      })
    },
    add(counters, tokens, now) {
      for (const { key, windowMs } of counters) {
        windows.set(key, addTo(windows.get(key), tokens, windowMs, now))
      }
      addsSinceSweep += counters.length
      if (addsSinceSweep >= Math.max(addsPerSweep, windows.size)) sweep(now)
    },
  }
}
