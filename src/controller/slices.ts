/** Long work on the loop that answers requests, cut so that none of them waits for it. */

import { setImmediate as nextTurn } from 'node:timers/promises'

/** Milliseconds of work between two turns of the event loop. */
const sliceMs = 4

/**
 * Runs steps to their end. After each slice everything else that is ready has its turn; a promise
 * that a step yields is waited for, and its value handed to the next one.
 */
export async function inSlices<Result>(steps: Generator<unknown, Result>): Promise<Result> {
  let until = performance.now() + sliceMs
  let answer: unknown
  for (;;) {
    const step = steps.next(answer)
    if (step.done) return step.value
    answer = step.value instanceof Promise ? await step.value : undefined
    if (performance.now() < until) continue
    await nextTurn()
    until = performance.now() + sliceMs
  }
}
