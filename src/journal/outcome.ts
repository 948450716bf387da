/** Derives from a line how its request ended at its model's server. */

import { failureOf, hasResponded, type Outcome } from '../usage/rules/model-failure.ts'
import type { ReadLine } from './read-line.ts'

/** For a line of a request that has ended. */
export function outcomeOf(line: ReadLine): Outcome {
  const { usage, startedAt, firstByteMs } = line
  return {
    model: usage.model,
    subscription: usage.subscription,
    requestId: usage.response.id,
    status: usage.status,
    endedAt: usage.response.endedAt,
    durationMs: usage.response.endedAt - startedAt,
    firstByteMs,
    failure: failureOf(line),
    hasResponded: hasResponded(line),
  }
}
