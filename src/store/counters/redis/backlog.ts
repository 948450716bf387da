/** What waits for a sender's next batch, and the callers that wait for its response. */

import { createFifo } from '../../fifo.ts'
import type { Batch, Part } from './batch.ts'
import { createReportQueue, isJournaled, type ReportCounts } from './report-queue.ts'
import type { SharedCounter, SharedReport } from './shared-counter.ts'
import { isOpen, takeBack, takePending, takeReported, unansweredIn } from './view.ts'

/** The content of a batch: reports as well, or only counters. */
export type Holding = 'all' | 'counters'

/** A caller that waits until this much has been sent and acknowledged. */
interface Waiter extends ReportCounts {
  entered: number
  resolve(): void
  reject(error: Error): void
}

/** The most counters in one batch: a script blocks Redis while it runs. */
const batchSize = 512
/** The most reports in one batch; their counters may be added to it. */
const reportsSize = 256

/** An empty one. */
export function createBacklog() {
  // Counters leave it only in the order in which they entered: `kept` counts on it.
  const due = createFifo<SharedCounter>()
  const queue = createReportQueue()
  let waiters: Waiter[] = []
  let underWay: readonly Part[] | undefined

  function enter(counter: SharedCounter): boolean {
    if (counter.isDue) return false
    counter.isDue = true
    due.push(counter)
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
      counter.named -= 1
      // The journal's reports are not in the view: most of them have been counted before.
      if (!isJournaled(report)) takeReported(counter, tokens, now)
    }
  }

  function name({ counters }: SharedReport): void {
    for (const counter of counters) {
      counter.named += 1
      enter(counter)
    }
  }

  function take(now: number, holding: Holding = 'all'): Batch {
    const parts: Part[] = []
    underWay = parts
    const add = (counter: SharedCounter): void => {
      counter.place = parts.length
      parts.push({ counter, tokens: takePending(counter, now), endsAt: counter.endsAt })
    }
    leaveOld(now)
    for (const counter of due.take(batchSize)) {
      counter.isDue = false
      add(counter)
    }
    const reports = queue.take(holding === 'all' ? reportsSize : 0)
    for (const report of reports) {
      release(report, now)
      for (const counter of report.counters) {
        if (parts[counter.place]?.counter !== counter) add(counter)
      }
    }
    return { parts, reports }
  }

  return {
    /** Whether there is nothing to send. */
    isEmpty: (holding: Holding = 'all'): boolean =>
      due.size === 0 && (holding === 'counters' || queue.size === 0),
    /** Whether there is enough for a full batch. */
    isFull: (holding: Holding = 'all'): boolean =>
      due.size >= batchSize || (holding === 'all' && queue.size >= reportsSize),
    /** Queues the counter for a batch; returns whether it was not queued yet. */
    enter,
    /** Queues a report with its counters. */
    push(report: SharedReport): void {
      queue.push(report)
      name(report)
    },
    holds: (counter: SharedCounter): boolean =>
      unansweredIn(counter) > 0 || counter.isDue || counter.named > 0,
    /** Takes the next batch, which is then in flight. */
    take,
    /**
     * Leaves reports that are too old to the journal; the view keeps their tokens until Redis
     * responds again.
     */
    leaveOld,
    /**
     * The batch in flight has no response and will get none: all of it is queued again, except
     * tokens that may have been added (`doubtful`), which stay in flight.
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
      // The waiters now wait for everything queued, because what they waited for no longer has a
      // fixed place.
      for (const waiter of waiters) Object.assign(waiter, { ...queue.pushed, entered: due.pushed })
    },
    /** The batch in flight has been acknowledged. */
    settle(): void {
      underWay = undefined
      if (waiters.length === 0) return
      const { streamed, journaled } = queue.left
      waiters = waiters.filter((waiter) => {
        if (waiter.entered > due.left) return true
        if (waiter.streamed > streamed || waiter.journaled > journaled) return true
        waiter.resolve()
        return false
      })
    },
    /** Resolves once everything queued or in flight now is acknowledged. */
    async kept(): Promise<void> {
      if (due.size === 0 && queue.size === 0 && underWay === undefined) return
      await new Promise<void>((resolve, reject) => {
        waiters.push({ ...queue.pushed, entered: due.pushed, resolve, reject })
      })
    },
    /** Rejects all waiters. */
    giveUp(error: Error): void {
      for (const waiter of waiters) waiter.reject(error)
      waiters = []
    },
    /**
     * The number of counters with unacknowledged tokens, not counting those of reports, plus the
     * given others.
     */
    owed(now: number, others: Iterable<SharedCounter> = []): number {
      const counters = new Set<SharedCounter>()
      for (const counter of others) if (isOpen(counter, now)) counters.add(counter)
      for (const { counter, tokens, endsAt } of underWay ?? []) {
        if (tokens > 0 && now < endsAt) counters.add(counter)
      }
      for (const counter of due.all()) {
        if (isOpen(counter, now) && counter.pending > 0) counters.add(counter)
      }
      return counters.size
    },
  }
}
