/** Holds in this process, beside its counters. They end with the process. */

import { admit } from '../../core/admission/admit.ts'
import { grown, noHolds, type Sums, withHold } from '../../core/admission/hold.ts'
import type { Counter, CounterState } from '../../core/decision/counter.ts'
import { wordsOf } from '../counters/reports.ts'
import type { CounterStore } from '../counters.ts'
import { type AskedHold, type HoldAnswer, type HoldStore, leaseMs } from '../holds.ts'
import { createAskers } from './askers.ts'
import { HoldTable } from './hold-table.ts'

/** The open holds of one counter in one window. */
interface Pool {
  readonly key: string
  /** Infinity: of all windows. */
  endsAt: number
  sums: Sums
  /** With those beside it that the last hold was taken of: usually they are the same again. */
  group: readonly Pool[]
}

/** How often leases are looked at, in milliseconds. */
const sweepEveryMs = 1_000

export interface MemoryHolds extends HoldStore {
  /** Open holds. */
  readonly size: number
  /** The sums of a counter's open holds. */
  sums(key: string): Sums
}

/** Holds beside counters that answer at once. */
export function createMemoryHolds(counters: Pick<CounterStore, 'read' | 'add'>): MemoryHolds {
  const pools = new Map<string, Pool>()
  /** Each with the pools that it is in. */
  const open = new HoldTable<readonly Pool[]>()
  const askers = createAskers()
  let sweptAt = Number.NEGATIVE_INFINITY

  function end(slot: number): void {
    if (slot < 0) return
    const hold = open.holdAt(slot)
    for (const pool of open.ownerAt(slot)) {
      pool.sums = withHold(pool.sums, hold, -1)
      if (pool.sums.count === 0 && pools.get(pool.key) === pool) pools.delete(pool.key)
    }
    open.remove(slot)
  }

  function expire(now: number): void {
    if (Math.abs(now - sweptAt) < sweepEveryMs) return
    sweptAt = now
    // A lease that ends so late is of a clock that has since stepped back.
    open.sweep((endsAt) => now >= endsAt || endsAt > now + 2 * leaseMs, end)
  }

  /** The pool of the window that is open, or of all windows. */
  function poolOf(counter: Counter, window: CounterState | undefined, carries: boolean) {
    const pool = pools.get(counter.key)
    if (pool === undefined || carries) return pool
    // A later window ends a whole one later; this one's end is known to the millisecond at best.
    const isLater = window === undefined || window.resetsAt > pool.endsAt + counter.windowMs / 2
    return isLater ? undefined : pool
  }

  function hold(asked: AskedHold, now: number): HoldAnswer {
    expire(now)
    const carries = asked.charge === 'end'
    const states = counters.read(asked.counters, now) as (CounterState | undefined)[]
    const joined: (Pool | undefined)[] = []
    const rooms = asked.counters.map((counter, i) => {
      const pool = poolOf(counter, states[i], carries)
      joined.push(pool)
      return { limit: counter.limit, used: states[i]?.used ?? 0, held: pool?.sums ?? noHolds }
    })
    const words = asked.id === undefined ? undefined : wordsOf(asked.id)
    const repeated = words === undefined ? -1 : open.find(words)
    if (repeated >= 0) {
      askers.again(asked.id as string)
      return answer('held', open.capAt(repeated))
    }
    const admission = admit(rooms, asked.expected, asked.overshoot, asked.canCap)
    if (admission.outcome !== 'held') return answer(admission.outcome, 0)
    const { hold: own, cap } = admission
    if (words === undefined) return answer('held', cap)
    asked.counters.forEach((counter, i) => {
      if (!carries && states[i] === undefined) states[i] = openWindow(counter, now)
      const endsAt = carries ? Number.POSITIVE_INFINITY : (states[i]?.resetsAt ?? 0)
      const pool = joined[i] ?? { key: counter.key, endsAt, sums: noHolds, group: [] }
      if (joined[i] === undefined) pools.set(counter.key, pool)
      pool.sums = withHold(pool.sums, own, 1)
      joined[i] = pool
    })
    open.add(words, groupOf(joined as Pool[]), own, cap, now + leaseMs)
    return answer('held', cap)

    function answer(outcome: HoldAnswer['outcome'], cap: number): HoldAnswer {
      const windows = states.map((state, i) => {
        const held = joined[i]?.sums.mean ?? 0
        if (held === 0) return state
        const resetsAt = state?.resetsAt ?? now + (asked.counters[i]?.windowMs ?? 0)
        return { used: state?.used ?? 0, resetsAt, held }
      })
      if (outcome !== 'busy') return { outcome, cap, windows }
      return { outcome, cap, windows, open: Math.max(...rooms.map(({ held }) => held.count)) }
    }
  }

  function groupOf(taken: readonly Pool[]): readonly Pool[] {
    const [first] = taken
    if (first === undefined) return taken
    const { group } = first
    const isSame = group.length === taken.length && taken.every((pool, i) => group[i] === pool)
    if (!isSame) first.group = taken
    return first.group
  }

  function openWindow(counter: Counter, now: number): CounterState {
    counters.add([counter], 0, now)
    return { used: 0, resetsAt: now + counter.windowMs }
  }

  return {
    get size() {
      return open.size
    },
    sums: (key) => pools.get(key)?.sums ?? noHolds,
    hold,
    release(_, id) {
      askers.forget(id)
      end(open.find(wordsOf(id)))
    },
    undo(_, id) {
      if (askers.leave(id)) end(open.find(wordsOf(id)))
    },
    renew(_, id, output, now) {
      const slot = open.find(wordsOf(id))
      if (slot < 0) return
      const [before, after] = [open.holdAt(slot), grown(open.holdAt(slot), output)]
      for (const pool of open.ownerAt(slot)) {
        pool.sums = withHold(withHold(pool.sums, before, -1), after, 1)
      }
      open.change(slot, after, now + leaseMs)
    },
  }
}
