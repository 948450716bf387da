/** Long work on the loop that answers requests, cut so that none of them waits for it. */

/** Milliseconds of work between two turns of the event loop. */
const sliceMs = 3

/** Whoever wants a slice, in the order in which they came. */
const waiting: (() => void)[] = []

/**
 * Runs steps to their end. After each slice everything else that is ready has its turn, and of all
 * such works one has a slice of a turn; a promise that a step yields is waited for, and its value
 * handed to the next one.
 */
export async function inSlices<Result>(steps: Generator<unknown, Result>): Promise<Result> {
  let until = Number.NEGATIVE_INFINITY
  let answer: unknown
  for (;;) {
    if (performance.now() >= until) {
      await nextSlice()
      until = performance.now() + sliceMs
    }
    const step = steps.next(answer)
    if (step.done) return step.value
    answer = step.value instanceof Promise ? await step.value : undefined
  }
}

function nextSlice(): Promise<void> {
  return new Promise((begin) => {
    if (waiting.push(begin) === 1) setImmediate(giveSlice)
  })
}

function giveSlice(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(giveSlice)
}
