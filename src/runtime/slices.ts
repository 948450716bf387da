/** Runs long work on the event loop in slices, so that requests do not wait for it. */

/** Milliseconds of work between two turns of the event loop. */
const sliceMs = 3

/** The work waiting for a slice, in order of arrival. */
const waiting: (() => void)[] = []

/**
 * Runs steps to their end. After each slice all other ready work gets a turn, and only one such job has a slice per
 * turn. A promise that a step yields is awaited, and its value passed to the next step.
 */
export async function inSlices<Result>(steps: Generator<unknown, Result>): Promise<Result> {
  let until = Number.NEGATIVE_INFINITY
  let value: unknown
  for (;;) {
    if (performance.now() >= until) {
      await nextSlice()
      until = performance.now() + sliceMs
    }
    const step = steps.next(value)
    if (step.done) return step.value
    value = step.value instanceof Promise ? await step.value : undefined
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
