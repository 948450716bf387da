/** What waits for a sender's next batch, and who waits until it is answered. */

import type { Batch, Part } from './batch.ts'
import { createReportQueue, type ReportCounts } from './report-queue.ts'
import type { SharedCounter, SharedReport } from './shared-counter.ts'
import { isOpen, takePending, takeReported, unansweredIn } from './view.ts'

export interface CounterBacklog {
  readonly isEmpty: boolean
  /** Whether there is enough for a batch of full size. */
  readonly isFull: boolean
  /** Has the counter in a batch to come; whether it was in none before. */
  enter(counter: SharedCounter): boolean
  /** The same for a report, with its counters. */
  push(report: SharedReport): void
  holds(counter: SharedCounter): boolean
  /** The next batch, which is then under way. */
  take(now: number): Batch
  /** Leaves to the journal what is too old; the view has its tokens until Redis answers again. */
  leaveOld(now: number): void
  /** The batch under way has been answered. */
  settle(): void
  /** Settles once all that is here or under way by now has been answered. */
  kept(): Promise<void>
  /** Has those who wait for that rejected. */
  giveUp(error: Error): void
  /** Counters with tokens that have not been answered, those of reports aside. */
  owed(now: number): number
}

/** Somebody who waits until so much has left and is answered. */
interface Waiter extends ReportCounts {
  readonly entered: number
  resolve(): void
  reject(error: Error): void
}

/** Counters in one batch at most: a script blocks Redis while it runs. */
const batchSize = 512
/** Reports in one batch at most; their counters may come on top. */
const reportsSize = 256

/** An empty one. */
export function createBacklog(): CounterBacklog {
  // Counters leave it in the order they entered, and no other way: `kept` goes by how many have.
  const due = new Set<SharedCounter>()
  const queue = createReportQueue()
  let waiters: Waiter[] = []
  let entered = 0
  let left = 0
  let underWay: readonly Part[] | undefined
  /** How many reports in the queue name a counter. */
  const named = new Map<SharedCounter, number>()

  function enter(counter: SharedCounter): boolean {
    const { size } = due
    if (due.add(counter).size === size) return false
    entered += 1
    return true
  }

  function leaveOld(now: number): void {
    for (const report of queue.drop(now)) {
      release(report, now)
      for (const counter of report.counters) enter(counter)
    }
  }

  function release({ counters, tokens, sendBy }: SharedReport, now: number): void {
    for (const counter of counters) {
      const others = (named.get(counter) ?? 1) - 1
      if (others > 0) named.set(counter, others)
      else named.delete(counter)
      // What the journal tells is not in the view: most of it has been counted before.
      if (sendBy !== Number.POSITIVE_INFINITY) takeReported(counter, tokens, now)
    }
  }

  function take(now: number): Batch {
    const parts: Part[] = []
    underWay = parts
    const places = new Map<SharedCounter, number>()
    const hasReports = queue.size > 0
    const add = (counter: SharedCounter): void => {
      if (hasReports) places.set(counter, parts.length)
      parts.push({ counter, tokens: takePending(counter, now), endsAt: counter.endsAt })
    }
    if (hasReports) leaveOld(now)
    for (const counter of due) {
      if (parts.length === batchSize) break
      due.delete(counter)
      left += 1
      add(counter)
    }
    const reports = queue.take(reportsSize)
    for (const report of reports) {
      release(report, now)
      for (const counter of report.counters) if (!places.has(counter)) add(counter)
    }
    return { parts, reports, places }
  }

  return {
    get isEmpty() {
      return due.size === 0 && queue.size === 0
    },
    get isFull() {
      return due.size >= batchSize || queue.size >= reportsSize
    },
    enter,
    push(report) {
      queue.push(report)
      for (const counter of report.counters) {
        named.set(counter, 1 + (named.get(counter) ?? 0))
        enter(counter)
      }
    },
    holds: (counter) => unansweredIn(counter) > 0 || due.has(counter) || named.has(counter),
    take,
    leaveOld,
    settle() {
      underWay = undefined
      if (waiters.length === 0) return
      const { streamed, journaled } = queue.left
      waiters = waiters.filter((waiter) => {
        if (waiter.entered > left) return true
        if (waiter.streamed > streamed || waiter.journaled > journaled) return true
        waiter.resolve()
        return false
      })
    },
    async kept() {
      if (due.size === 0 && queue.size === 0 && underWay === undefined) return
      await new Promise<void>((resolve, reject) => {
        waiters.push({ ...queue.pushed, entered, resolve, reject })
      })
    },
    giveUp(error) {
      for (const waiter of waiters) waiter.reject(error)
      waiters = []
    },
    owed(now) {
      const counters = new Set<SharedCounter>()
      for (const { counter, tokens, endsAt } of underWay ?? []) {
        if (tokens > 0 && now < endsAt) counters.add(counter)
      }
      for (const counter of due) {
        if (isOpen(counter, now) && counter.pending > 0) counters.add(counter)
      }
      return counters.size
    },
  }
}
