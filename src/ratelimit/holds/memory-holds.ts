/** Holds in this process, beside the use that it knows of. They end with the process. */

import { addExact, type ExactInt } from '../../formats/exact.ts'
import type { HoldStore } from '../holds.ts'
import { admitRequest } from '../rules/estimates/admit.ts'
import {
  growHold,
  type HeldAmount,
  type HeldSums,
  noHolds,
  withHold,
} from '../rules/estimates/held-amounts.ts'
import { type Hold, type HoldResult, holdLeaseMs } from '../rules/hold.ts'
import { shortRequestId } from './request-ids.ts'
import {
  boundWindow,
  type HoldTarget,
  holdTargets,
  type KnownWindows,
  windowedCounters,
} from './windows.ts'

/** The open holds of one window, or of a counter in all windows. */
interface Pool {
  readonly name: string
  /** The map that contains it while something is held. */
  readonly among: Map<string, Pool>
  sums: HeldSums
}

/** A request's hold in one pool. */
type HeldTarget = Pick<PooledTarget, 'pool' | 'counter'> & { hold: HeldAmount }

interface OpenHold {
  readonly targets: readonly HeldTarget[]
  /** In tokens. */
  hold: HeldAmount
  readonly ceiling: number
  /** How often it was asked for again. */
  repeats: number
  /** The end of its lease, in monotonic time. */
  endsAt: number
}

type PooledTarget = HoldTarget & { readonly pool: Pool }

/** Interval between two searches for expired leases, in milliseconds. */
const sweepEveryMs = 1_000

interface MemoryHolds extends HoldStore {
  /** Number of open holds. */
  readonly size: number
}

/** `monotonic`: a clock in milliseconds, by which leases end, so that a clock that is set frees nothing. */
export function createMemoryHolds(
  windows: KnownWindows,
  monotonic = () => performance.now(),
): MemoryHolds {
  /** By window id. */
  const ofWindows = new Map<string, Pool>()
  /** By counter key. */
  const ofCounters = new Map<string, Pool>()
  /** By request id, shortened by `shortRequestId`. */
  const open = new Map<string, OpenHold>()
  let sweptAt = Number.NEGATIVE_INFINITY

  function end(member: string): void {
    const found = open.get(member)
    if (found === undefined) return
    for (const { pool, hold } of found.targets) {
      pool.sums = withHold(pool.sums, hold, -1)
      if (pool.sums.count === 0) pool.among.delete(pool.name)
    }
    open.delete(member)
  }

  function expire(): void {
    const now = monotonic()
    if (now - sweptAt < sweepEveryMs) return
    sweptAt = now
    for (const [member, { endsAt }] of open) if (now >= endsAt) end(member)
  }

  function poolOf(target: HoldTarget, charge: Hold['charge']): Pool {
    const { id } = boundWindow(target, charge) ?? {}
    const [name, among] = id === undefined ? [target.counter.key, ofCounters] : [id, ofWindows]
    return among.get(name) ?? { name, among, sums: noHolds }
  }

  function hold(asked: Hold, now: number): HoldResult {
    // Read first, because reading lines may end holds.
    const known = windows(windowedCounters(asked), now)
    expire()
    const targets = holdTargets(asked, known).map((target): PooledTarget => {
      return { ...target, pool: poolOf(target, asked.charge) }
    })
    const member = asked.id === undefined ? undefined : shortRequestId(asked.id)
    const repeated = member === undefined ? undefined : open.get(member)
    if (repeated !== undefined) {
      repeated.repeats += 1
      return toResult(targets, now, 'held', repeated.ceiling)
    }
    const rooms = targets.slice(0, asked.counters.length).map(({ counter, window, pool }) => {
      const { limit, factors } = counter
      return { limit, used: window?.used ?? 0, held: pool.sums, factors }
    })
    const admission = admitRequest(rooms, asked.expected, asked.overshoot, asked.canLimitOutput)
    const outcome = withTaken(admission.outcome, targets)
    if (admission.outcome !== 'held' || outcome !== 'held')
      return toResult(targets, now, outcome, 0)
    const { hold: tokens, holds, ceiling } = admission
    if (member !== undefined) {
      const held = targets.map(({ pool, counter }, i): HeldTarget => {
        return { pool, counter, hold: holds[i] ?? tokens }
      })
      for (const { pool, hold } of held) {
        if (pool.sums.count === 0) pool.among.set(pool.name, pool)
        pool.sums = withHold(pool.sums, hold, 1)
      }
      const endsAt = monotonic() + holdLeaseMs
      open.set(member, { targets: held, hold: tokens, ceiling, repeats: 0, endsAt })
    }
    return toResult(targets, now, 'held', ceiling)
  }

  return {
    get size() {
      return open.size
    },
    hold,
    release: (_, id) => end(shortRequestId(id)),
    undo(_, id) {
      const found = open.get(shortRequestId(id))
      if (found === undefined) return
      found.repeats -= 1
      if (found.repeats < 0) end(shortRequestId(id))
    },
    renew(_, id, output) {
      const found = open.get(shortRequestId(id))
      if (found === undefined) return
      for (const target of found.targets) {
        const { pool, hold, counter } = target
        target.hold = growHold(hold, output, counter.factors, found.hold)
        pool.sums = withHold(withHold(pool.sums, hold, -1), target.hold, 1)
      }
      found.hold = growHold(found.hold, output)
      found.endsAt = monotonic() + holdLeaseMs
    },
  }
}

/** The use of a limit; for requests and concurrency, including open requests. */
function usedOf({ kind, window, pool }: PooledTarget): ExactInt {
  const used = window?.used ?? 0
  return kind === 'tokens' ? used : addExact(used, pool.sums.count)
}

/** The outcome for tokens, combined with that for requests and concurrency. */
function withTaken(
  ofTokens: HoldResult['outcome'],
  targets: readonly PooledTarget[],
): HoldResult['outcome'] {
  let outcome = ofTokens
  for (const target of targets) {
    const { kind, counter } = target
    if (kind === 'tokens' || usedOf(target) < counter.limit) continue
    // A request stays counted after its end; for concurrency its place becomes free.
    if (kind === 'requests') return 'spent'
    if (outcome === 'held') outcome = 'busy'
  }
  return outcome
}

function toResult(
  targets: readonly PooledTarget[],
  now: number,
  outcome: HoldResult['outcome'],
  ceiling: number,
): HoldResult {
  const windows = targets.map((target) => {
    const state = { used: usedOf(target), resetsAt: target.window?.resetsAt ?? now }
    const held = target.kind === 'tokens' ? target.pool.sums.mean : 0
    return held > 0 ? { ...state, held } : state
  })
  if (outcome !== 'busy') return { outcome, ceiling, windows }
  const counts = targets.map(({ kind, pool }) => (kind === 'requests' ? 0 : pool.sums.count))
  return { outcome, ceiling, windows, open: Math.max(...counts) }
}
