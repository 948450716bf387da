/**
 * What requests have taken in this process: one of each limit on requests, which stays counted, and
 * one of each limit on concurrency until they end. Beside holds of tokens, all or nothing.
 */

import type { Counter, CounterState } from '../../core/decision/counter.ts'
import { memberOf } from '../counters/reports.ts'
import type { CounterStore } from '../counters.ts'
import { type HoldAnswer, type HoldStore, leaseMs } from '../holds.ts'
import { createAskers } from './askers.ts'

interface OpenRequest {
  /** Keys of the counters of open requests that it is in. */
  readonly keys: readonly string[]
  readonly endsAt: number
}

export interface MemoryTaken extends HoldStore {
  /** Open requests that have taken something. */
  readonly size: number
}

/** Holds whose store and counters answer at once, and what requests take beside them. */
export function withTaken(
  holds: HoldStore,
  counters: Pick<CounterStore, 'read' | 'add'>,
): MemoryTaken {
  /** Open requests by counter. */
  const counts = new Map<string, number>()
  /** By the member of the request id; the oldest lease first, as all are equally long. */
  const open = new Map<string, OpenRequest>()
  const askers = createAskers()

  function end(member: string): void {
    const found = open.get(member)
    if (found === undefined) return
    open.delete(member)
    for (const key of found.keys) {
      const left = (counts.get(key) ?? 0) - 1
      if (left > 0) counts.set(key, left)
      else counts.delete(key)
    }
  }

  function expire(now: number): void {
    for (const [member, { endsAt }] of open) {
      // A lease that ends so late is of a clock that has since stepped back.
      if (now < endsAt && endsAt <= now + 2 * leaseMs) return
      end(member)
    }
  }

  function stateOf(counter: Counter, now: number): CounterState | undefined {
    const { key, windowMs } = counter
    if (windowMs === 0) return { used: counts.get(key) ?? 0, resetsAt: now }
    const [state] = counters.read([counter], now) as readonly (CounterState | undefined)[]
    return state
  }

  function take(member: string, taken: readonly Counter[], now: number): void {
    const requests = taken.filter(({ windowMs }) => windowMs > 0)
    if (requests.length > 0) counters.add(requests, 1, now)
    const keys = taken.filter(({ windowMs }) => windowMs === 0).map(({ key }) => key)
    for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
    open.set(member, { keys, endsAt: now + leaseMs })
  }

  return {
    get size() {
      return open.size
    },
    hold(asked, now) {
      const { id, taken } = asked
      if (taken === undefined || taken.length === 0) return holds.hold(asked, now)
      expire(now)
      const member = id === undefined ? undefined : memberOf(id)
      const isRepeated = member !== undefined && open.has(member)
      const full = taken.filter((each) => (stateOf(each, now)?.used ?? 0) >= each.limit)
      const isRefused = full.length > 0 && !isRepeated
      const only = isRefused ? { ...asked, id: undefined } : asked
      const held = (asked.counters.length === 0 ? empty : holds.hold(only, now)) as HoldAnswer
      let { outcome } = held
      if (isRefused && outcome !== 'spent') {
        outcome = full.some(({ windowMs }) => windowMs > 0) ? 'spent' : 'busy'
      }
      if (isRepeated) askers.again(member)
      if (outcome === 'held' && member !== undefined && !isRepeated) take(member, taken, now)
      const windows = taken.map((each) => stateOf(each, now))
      const answer = { ...held, outcome, windows: [...held.windows, ...windows] }
      if (!isRefused || outcome !== 'busy') return answer
      const most = Math.max(held.open ?? 0, ...full.map(({ key }) => counts.get(key) ?? 0))
      return { ...answer, open: most }
    },
    release(counters, id) {
      const member = memberOf(id)
      askers.forget(member)
      end(member)
      holds.release(counters, id)
    },
    undo(counters, id, asker) {
      const member = memberOf(id)
      if (askers.leave(member)) end(member)
      holds.undo(counters, id, asker)
    },
    renew(counters, id, output, now) {
      const member = memberOf(id)
      const found = open.get(member)
      // Behind the others, whose leases end earlier.
      if (found !== undefined && open.delete(member)) {
        open.set(member, { ...found, endsAt: now + leaseMs })
      }
      holds.renew(counters, id, output, now)
    },
  }
}

/** Without tokens. */
const empty: HoldAnswer = { outcome: 'held', cap: Number.POSITIVE_INFINITY, windows: [] }
