/** What waits for a sender's next batch, and who waits until it is answered. */

import type { Batch, Part } from './batch.ts'
import { createReportQueue, isJournaled, type ReportCounts } from './report-queue.ts'
import type { SharedCounter, SharedReport } from './shared-counter.ts'
import { isOpen, takeBack, takePending, takeReported, unansweredIn } from './view.ts'

/** What a batch may hold: reports as well, or counters alone. */
export type Holding = 'all' | 'counters'

/** Somebody who waits until so much has left and is answered. */
interface Waiter extends ReportCounts {
  entered: number
  resolve(): void
  reject(error: Error): void
}

/** Counters in one batch at most: a script blocks Redis while it runs. */
const batchSize = 512
/** Reports in one batch at most; their counters may come on top. */
const reportsSize = 256

/** An empty one. */
export function createBacklog() {
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

  function release(report: SharedReport, now: number): void {
    const { counters, tokens } = report
    for (const counter of counters) {
      const others = (named.get(counter) ?? 1) - 1
      if (others > 0) named.set(counter, others)
      else named.delete(counter)
      // What the journal tells is not in the view: most of it has been counted before.
      if (!isJournaled(report)) takeReported(counter, tokens, now)
    }
  }

  function name({ counters }: SharedReport): void {
    for (const counter of counters) {
      named.set(counter, 1 + (named.get(counter) ?? 0))
      enter(counter)
    }
  }

  function take(now: number, holding: Holding = 'all'): Batch {
    const parts: Part[] = []
    underWay = parts
    const places = new Map<SharedCounter, number>()
    const hasReports = holding === 'all' && queue.size > 0
    const add = (counter: SharedCounter): void => {
      if (hasReports) places.set(counter, parts.length)
      parts.push({ counter, tokens: takePending(counter, now), endsAt: counter.endsAt })
    }
    leaveOld(now)
    for (const counter of due) {
      if (parts.length === batchSize) break
      due.delete(counter)
      left += 1
      add(counter)
    }
    const reports = queue.take(hasReports ? reportsSize : 0)
    for (const report of reports) {
      release(report, now)
      for (const counter of report.counters) if (!places.has(counter)) add(counter)
    }
    return { parts, reports, places }
  }

  return {
    /** Whether there is nothing for a batch. */
    isEmpty: (holding: Holding = 'all'): boolean =>
      due.size === 0 && (holding === 'counters' || queue.size === 0),
    /** Whether there is enough for a batch of full size. */
    isFull: (holding: Holding = 'all'): boolean =>
      due.size >= batchSize || (holding === 'all' && queue.size >= reportsSize),
    /** Has the counter in a batch to come; whether it was in none before. */
    enter,
    /** The same for a report, with its counters. */
    push(report: SharedReport): void {
      queue.push(report)
      name(report)
    },
    holds: (counter: SharedCounter): boolean =>
      unansweredIn(counter) > 0 || due.has(counter) || named.has(counter),
    /** The next batch, which is then under way. */
    take,
    /** Leaves to the journal what is too old; the view has its tokens until Redis answers again. */
    leaveOld,
    /**
     * The batch under way has not been answered and will not be: all of it waits again, but for tokens
     * that may have got there (`doubtful`), which are left as under way.
     */
    unwind({ parts, reports }: Batch, doubtful: boolean, now: number): void {
      underWay = undefined
      for (const { counter, tokens } of parts) {
        if (!doubtful) takeBack(counter, tokens, 'pending', now)
        enter(counter)
      }
      queue.putBack(reports)
      for (const report of reports) {
        name(report)
        if (isJournaled(report)) continue
        for (const counter of report.counters) takeBack(counter, report.tokens, 'reported', now)
      }
      // Those who wait do so for all that is here now: what they waited for has no place of its own.
      for (const waiter of waiters) Object.assign(waiter, { ...queue.pushed, entered })
    },
    /** The batch under way has been answered. */
    settle(): void {
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
    /** Settles once all that is here or under way by now has been answered. */
    async kept(): Promise<void> {
      if (due.size === 0 && queue.size === 0 && underWay === undefined) return
      await new Promise<void>((resolve, reject) => {
        waiters.push({ ...queue.pushed, entered, resolve, reject })
      })
    },
    /** Has those who wait for that rejected. */
    giveUp(error: Error): void {
      for (const waiter of waiters) waiter.reject(error)
      waiters = []
    },
    /** Counters with tokens that have not been answered, those of reports aside; and these others. */
    owed(now: number, others: Iterable<SharedCounter> = []): number {
      const counters = new Set<SharedCounter>()
      for (const counter of others) if (isOpen(counter, now)) counters.add(counter)
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
