/** Derives from a line how its request ended at its model's server. */

import { failureOf, isAnswered, type Outcome } from '../usage/rules/model-failure.ts'
import { flagNumbers } from '../usage/rules/response-flags.ts'
import type { ReadLine } from './read-line.ts'

/** For a line of a request that has ended. */
export function outcomeOf(line: ReadLine): Outcome {
  const { usage, startedAt, firstByteMs, details, transport } = line
  const ended = { flags: flagNumbers(line.flags), details, transport, reported: line.failure }
  return {
    model: usage.model,
    subscription: usage.subscription,
    requestId: usage.response.id,
    status: usage.status,
    endedAt: usage.response.endedAt,
    durationMs: usage.response.endedAt - startedAt,
    firstByteMs,
    failure: failureOf(ended),
    answered: isAnswered(ended),
  }
}
