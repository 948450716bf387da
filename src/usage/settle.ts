/** Processes a line besides adding it to sums. */

import { outcomeOf } from '../journal/outcome.ts'
import type { ReadLine } from '../journal/read-line.ts'
import type { HoldFollower } from './hold-follower.ts'
import type { Outcome } from './rules/model-failure.ts'
import type { Charge, Usage } from './rules/usage.ts'

interface SettleDeps {
  readonly holds: HoldFollower
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  readonly all: Listeners
  readonly writer: WriterListeners
}

/** Called in every process, again for some lines after a restart. */
interface Listeners {
  /** How a request has ended at its model's server. */
  readonly onEnded: (outcome: Outcome) => void
}

/** Called once across all processes of a gateway. */
export interface WriterListeners extends Listeners {
  /** A request that began at this time (ms since the epoch) was admitted without a Check, and has ended. */
  readonly onAdmitted: (usage: Usage, startedAt: number) => void
  /** A metered response, and what it is charged. */
  readonly onCharged: (usage: Usage, charge: Charge) => void
}

export interface Settle {
  /** To be called for each line that this process has counted. */
  onLine(line: ReadLine): void
  /** To be called for the same lines in the writer alone, once for each. */
  onDelivered(line: ReadLine): void
}

export function createSettle(deps: SettleDeps): Settle {
  const { holds, clock, all, writer } = deps
  return {
    onLine(line) {
      const { state, usage } = line
      if (state === 'running') return holds.follow(usage, clock())
      holds.release(usage)
      all.onEnded(outcomeOf(line))
    },
    onDelivered(line) {
      const { state, usage, charge, by, startedAt } = line
      if (state === 'running') return
      writer.onEnded(outcomeOf(line))
      if (by === 'table') writer.onAdmitted(usage, startedAt)
      if (charge === undefined) return
      holds.learn(usage, charge.estimated > 0 ? undefined : charge.tokens)
      writer.onCharged(usage, charge)
    },
  }
}
