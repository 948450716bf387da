/** Holds in this process, beside its counters. They end with the process. */

import { admit } from '../../core/admission/admit.ts'
import { type Hold, noHolds, type Sums, withHold } from '../../core/admission/hold.ts'
import type { CounterState } from '../../core/decision/counter.ts'
import { memberOf } from '../counters/reports.ts'
import type { CounterStore } from '../counters.ts'
import { type AskedHold, type HoldAnswer, type HoldStore, leaseMs } from '../holds.ts'

/** The open holds of one counter in one window. */
interface Pool {
  readonly key: string
  /** Infinity: of all windows. */
  endsAt: number
  sums: Sums
}

interface OpenHold {
  readonly hold: Hold
  readonly cap: number
  readonly pools: readonly Pool[]
  readonly endsAt: number
}

export interface MemoryHolds extends HoldStore {
  /** Open holds. */
  readonly size: number
  /** The sums of a counter's open holds. */
  sums(key: string): Sums
}

/** Holds beside counters that answer at once. */
export function createMemoryHolds(counters: Pick<CounterStore, 'read' | 'add'>): MemoryHolds {
  const pools = new Map<string, Pool>()
  /** By the member of the request id; the oldest lease first, as all are equally long. */
  const open = new Map<string, OpenHold>()

  function end(member: string): void {
    const found = open.get(member)
    if (found === undefined) return
    open.delete(member)
    for (const pool of found.pools) {
      pool.sums = withHold(pool.sums, found.hold, -1)
      if (pool.sums.count === 0 && pools.get(pool.key) === pool) pools.delete(pool.key)
    }
  }

  function expire(now: number): void {
    for (const [member, { endsAt }] of open) {
      // A lease that ends so late is of a clock that has since stepped back.
      if (now < endsAt && endsAt <= now + 2 * leaseMs) return
      end(member)
    }
  }

  /** The pool of the window that is open, or of all windows. */
  function poolOf(key: string, window: CounterState | undefined, carries: boolean) {
    const pool = pools.get(key)
    if (pool === undefined || carries) return pool
    // A later window ends later. One that ends earlier was shortened, after a clock had stepped back.
    return window !== undefined && pool.endsAt >= window.resetsAt ? pool : undefined
  }

  function hold(asked: AskedHold, now: number): HoldAnswer {
    expire(now)
    const carries = asked.charge === 'end'
    const states = counters.read(asked.counters, now) as readonly (CounterState | undefined)[]
    const rooms = asked.counters.map(({ key, limit }, i) => {
      const pool = poolOf(key, states[i], carries)
      return { limit, used: states[i]?.used ?? 0, pool, held: pool?.sums ?? noHolds }
    })
    const member = asked.id === undefined ? undefined : memberOf(asked.id)
    const repeated = member === undefined ? undefined : open.get(member)
    const answer = (outcome: HoldAnswer['outcome'], cap: number): HoldAnswer => ({
      outcome,
      cap,
      windows: asked.counters.map(({ key, windowMs }, i) => {
        const held = poolOf(key, states[i], carries)?.sums.mean ?? 0
        const window = states[i] ?? (held > 0 ? { used: 0, resetsAt: now + windowMs } : undefined)
        return window === undefined || held === 0 ? window : { ...window, held }
      }),
    })
    if (repeated !== undefined) return answer('held', repeated.cap)
    const admission = admit(rooms, asked.expected, asked.overshoot, asked.canCap)
    if (admission.outcome !== 'held' || member === undefined) {
      return answer(admission.outcome, admission.outcome === 'held' ? admission.cap : 0)
    }
    if (!carries) openWindows(asked, states as (CounterState | undefined)[], now)
    const { hold: own, cap } = admission
    const taken = rooms.map(({ pool }, i) => {
      const { key } = asked.counters[i] as (typeof asked.counters)[number]
      const endsAt = carries ? Number.POSITIVE_INFINITY : (states[i]?.resetsAt ?? 0)
      const joined = pool ?? { key, endsAt, sums: noHolds }
      joined.sums = withHold(joined.sums, own, 1)
      pools.set(key, joined)
      return joined
    })
    open.set(member, { hold: own, cap, pools: taken, endsAt: now + leaseMs })
    return answer('held', cap)
  }

  /** Opens the windows that are not, and completes their states. */
  function openWindows(asked: AskedHold, states: (CounterState | undefined)[], now: number): void {
    asked.counters.forEach((counter, i) => {
      if (states[i] !== undefined) return
      counters.add([counter], 0, now)
      states[i] = { used: 0, resetsAt: now + counter.windowMs }
    })
  }

  return {
    get size() {
      return open.size
    },
    sums: (key) => pools.get(key)?.sums ?? noHolds,
    hold,
    release: (_, id) => end(memberOf(id)),
  }
}
