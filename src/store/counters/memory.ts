/**
 * Counters in this process, the default. They are lost at a restart, except for what a usage
 * journal holds.
 */

import {
  addLate,
  addTo,
  type Counter,
  type CounterState,
  openAt,
} from '../../core/decision/counter.ts'
import {
  type JournaledCounters,
  type Report,
  type ResettableCounters,
  rememberedMs,
  resetSlackMs,
  streamedWithinMs,
} from '../counters.ts'
import { createSeenReports } from './seen-reports.ts'

/** Additions between two sweeps of ended windows, so that memory follows the open ones. */
const addsPerSweep = 10_000
/** The interval of sweeps if nothing is added. */
const sweepEveryMs = 60_000

export interface MemoryCounters extends JournaledCounters, ResettableCounters {
  /** Windows held, ended ones included. */
  readonly size: number
  /** The number of remembered responses. */
  readonly reports: number
}

/** When counters were reset, by their keys, in milliseconds since the epoch. */
export type Resets = ReadonlyMap<string, number>

/**
 * JournaledCounters over one Map. `earlier`: the resets of earlier processes, so that a journal that is
 * read again does not undo them.
 */
export function createMemoryCounters(earlier?: Resets): MemoryCounters {
  const resets = new Map(earlier)
  /** Open windows by counter key, ended ones included. */
  const windows = new Map<string, CounterState>()
  const seen = createSeenReports()
  let addsSinceSweep = 0
  let sweptAt = Number.NEGATIVE_INFINITY

  function sweep(now: number): void {
    addsSinceSweep = 0
    sweptAt = now
    seen.forget(now - rememberedMs)
    for (const [key, { resetsAt }] of windows) if (now >= resetsAt) windows.delete(key)
  }

  /** Whether the counter was reset after the response had ended. */
  function isUndone(key: string, { endedAt, by }: Report, now: number): boolean {
    const at = resets.get(key)
    if (at === undefined || endedAt > at) return false
    // The clock has stepped back since: what ends now is later, whatever it says.
    if (by === 'stream' && at > now + resetSlackMs) return !resets.delete(key)
    return true
  }

  function addReport(
    counters: readonly Counter[],
    tokens: number,
    now: number,
    report: Report,
  ): void {
    const byStream = report.by === 'stream'
    if (byStream && now - report.endedAt >= streamedWithinMs) return
    if (!seen.isNew(report, now)) return
    report.onCounted?.()
    for (const { key, windowMs } of counters) {
      if (resets.size > 0 && isUndone(key, report, now)) continue
      // A journal's `now` may be in the past, which does not mean that a clock stepped back.
      const state = byStream ? openAt(windows.get(key), windowMs, now) : windows.get(key)
      const after = addLate(state, tokens, windowMs, now, report.endedAt)
      if (after !== undefined) windows.set(key, after)
    }
  }

  function read(counters: readonly Counter[], now: number): (CounterState | undefined)[] {
    if (Math.abs(now - sweptAt) >= sweepEveryMs) sweep(now)
    return counters.map(({ key, windowMs }) => {
      const state = windows.get(key)
      const open = openAt(state, windowMs, now)
      if (open !== undefined && open !== state) windows.set(key, open)
      return open
    })
  }

  return {
    get size() {
      return windows.size
    },
    get reports() {
      return seen.size
    },
    read,
    add(counters, tokens, now, report) {
      if (report !== undefined) {
        addReport(counters, tokens, now, report)
      } else {
        for (const { key, windowMs } of counters) {
          windows.set(key, addTo(windows.get(key), tokens, windowMs, now))
        }
      }
      addsSinceSweep += counters.length
      if (addsSinceSweep >= Math.max(addsPerSweep, windows.size)) sweep(now)
    },
    async readFresh(counters, now) {
      return read(counters, now)
    },
    async reset(counters, at) {
      for (const { key } of counters) {
        windows.delete(key)
        resets.set(key, at)
      }
    },
    async claimJournal() {
      return true
    },
    async kept() {},
    async forgetReports(endedBefore) {
      seen.forget(endedBefore)
    },
  }
}
