/** Processes a line besides adding it to sums. */

import type { JournalLine } from '../journal/journal-line.ts'
import { requestOutcomeOf } from '../journal/request-outcome.ts'
import { holdLeaseMs } from '../ratelimit/rules/hold.ts'
import type { HoldFollower } from './hold-follower.ts'
import type { RequestOutcome } from './rules/model-failure.ts'
import type { Charge, Usage } from './rules/usage.ts'

interface SettleDeps {
  readonly holds: HoldFollower
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
  readonly all: Listeners
  readonly writer: WriterListeners
}

/** Called in every process, again for some lines after a restart. */
interface Listeners {
  /** Called when a request has ended. */
  readonly onEnded: (outcome: RequestOutcome) => void
}

/** Called once across all processes of a gateway. */
export interface WriterListeners extends Listeners {
  /**
   * Called when a request has ended that was admitted without a Check; it began at `startedAt` (ms since the epoch).
   */
  readonly onAdmitted: (usage: Usage, startedAt: number) => void
  /** Called with each metered response and its charge. */
  readonly onCharged: (usage: Usage, charge: Charge) => void
}

export type LineSettler = ReturnType<typeof createLineSettler>

export function createLineSettler(deps: SettleDeps) {
  const { holds, clock, monotonic = () => performance.now(), all, writer } = deps
  /** The smallest difference of the two clocks so far. */
  let behindMs = clock() - monotonic()

  /** Now, as the clock would say if it had never been put forward: requests in progress began before that. */
  function earliestNow(): number {
    const sinceMs = monotonic()
    behindMs = Math.min(behindMs, clock() - sinceMs)
    return behindMs + sinceMs
  }

  return {
    /** Call it for each line that this process has counted. */
    onLine(line: JournalLine) {
      const { state, usage } = line
      const now = earliestNow()
      if (state === 'running') return holds.follow(usage, now)
      holds.release(usage)
      all.onEnded(requestOutcomeOf(line))
    },
    /** Call it in the writer alone, once for each of these lines, also for `isEarlier` ones that `onLine` did not get. */
    onDelivered(line: JournalLine, isEarlier = false): void {
      const { state, usage, charge, by, startedAt } = line
      if (state === 'running') return
      // Written while no process ran. Older holds have ended with their leases.
      if (isEarlier && earliestNow() - usage.response.endedAt < holdLeaseMs) holds.release(usage)
      writer.onEnded(requestOutcomeOf(line))
      if (by === 'table') writer.onAdmitted(usage, startedAt)
      if (charge === undefined) return
      holds.learn(usage, charge.estimated > 0 ? undefined : charge.tokens)
      writer.onCharged(usage, charge)
    },
  }
}
