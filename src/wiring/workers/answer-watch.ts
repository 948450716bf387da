/**
 * Detects a process that hangs: one that does not answer for a number of ticks. Ticks are counted
 * instead of time, so that a suspended machine or a pause of this process has no effect.
 */

/** Calls `onHung` once, at the `mostMissed`-th tick in a row without an answer. */
export function watchAnswers(ask: () => Promise<unknown>, mostMissed: number, onHung: () => void) {
  let isAnswered = true
  let missed = 0
  return {
    /** Call it at equal intervals; sends a request, unless the last one is unanswered. */
    tick(): void {
      if (!isAnswered) {
        missed += 1
        if (missed === mostMissed) onHung()
        return
      }
      missed = 0
      isAnswered = false
      const answered = (): void => {
        isAnswered = true
      }
      // A process that is gone is detected elsewhere.
      ask().then(answered, answered)
    },
  }
}
