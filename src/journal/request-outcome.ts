/** Derives from a line how its request ended at its model's server. */

import {
  hasServerResponded,
  modelFailureOf,
  type RequestOutcome,
} from '../usage/rules/model-failure.ts'
import type { JournalLine } from './journal-line.ts'

/** For a line of a request that has ended. */
export function requestOutcomeOf(line: JournalLine): RequestOutcome {
  const { usage, startedAt, firstByteMs } = line
  return {
    model: usage.model,
    subscription: usage.subscription,
    requestId: usage.response.id,
    status: usage.status,
    endedAt: usage.response.endedAt,
    durationMs: usage.response.endedAt - startedAt,
    firstByteMs,
    failure: modelFailureOf(line),
    hasResponded: hasServerResponded(line),
  }
}
