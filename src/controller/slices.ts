/** Long work on the loop that answers requests, cut so that none of them waits for it. */

import { setImmediate as nextTurn } from 'node:timers/promises'

/** Milliseconds of work between two turns of the event loop. */
const sliceMs = 4

/** Runs steps to their end. After each slice everything else that is ready has its turn. */
export async function inSlices<Result>(steps: Generator<unknown, Result>): Promise<Result> {
  let until = performance.now() + sliceMs
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
    if (performance.now() < until) continue
    await nextTurn()
    until = performance.now() + sliceMs
  }
}
