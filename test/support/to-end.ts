/** Runs steps to their end at once; what they yield is passed to `onStep`. */
export function toEnd<Result>(
  steps: Generator<unknown, Result>,
  onStep: () => void = () => {},
): Result {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
    onStep()
  }
}
