/** Reports that wait for a batch, in order of arrival. */

import { createFifo } from '../../fifo.ts'
import type { SharedReport } from './shared-counter.ts'

/** The number of each kind since the queue was created. */
export interface ReportCounts {
  readonly streamed: number
  readonly journaled: number
}

/** A quarter of each batch is for the journal. */
const journalShare = 0.25

/** Two queues: reports of the stream expire, those of the journal stay until sent. */
export function createReportQueue() {
  const streamed = createFifo<SharedReport>()
  const journaled = createFifo<SharedReport>()
  return {
    get size(): number {
      return streamed.size + journaled.size
    },
    /** Pushed, and taken or dropped, so far. */
    get pushed(): ReportCounts {
      return { streamed: streamed.pushed, journaled: journaled.pushed }
    },
    get left(): ReportCounts {
      return { streamed: streamed.left, journaled: journaled.left }
    },
    push(report: SharedReport): void {
      if (isJournaled(report)) journaled.push(report)
      else streamed.push(report)
    },
    /** Puts taken reports back in their order, as the next to be taken. */
    putBack(reports: readonly SharedReport[]): void {
      journaled.putBack(reports.filter(isJournaled))
      streamed.putBack(reports.filter((report) => !isJournaled(report)))
    },
    /** Takes up to `limit` of them. The journal gets its share, however much the stream reports. */
    take(limit: number): readonly SharedReport[] {
      const kept = Math.min(journaled.size, Math.ceil(limit * journalShare))
      const taken = streamed.take(limit - kept)
      return taken.concat(journaled.take(limit - taken.length))
    },
    /** Removes and returns the stream's reports that are too old to be sent. */
    drop(now: number): readonly SharedReport[] {
      // Arrival order is nearly age order, so none stays much too long.
      let old = 0
      while ((streamed.at(old)?.sendBy ?? Number.POSITIVE_INFINITY) <= now) old += 1
      return streamed.take(old)
    },
  }
}

/** Whether the journal reported it: then it is sent however late. */
export function isJournaled({ sendBy }: SharedReport): boolean {
  return sendBy === Number.POSITIVE_INFINITY
}
