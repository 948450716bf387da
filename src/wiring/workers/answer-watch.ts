/**
 * Notices a process that hangs: one that does not answer, tick after tick. What counts is ticks, not
 * time: of a machine that was suspended, or of this process, which was, nobody is to blame.
 */

/** `onHung` is called once, with the `mostMissed`-th tick in a row that finds no answer. */
export function watchAnswers(ask: () => Promise<unknown>, mostMissed: number, onHung: () => void) {
  let isAnswered = true
  let missed = 0
  return {
    /** To be called at equal intervals; asks, unless the last question has not been answered. */
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
      // Who is gone is noticed by others.
      ask().then(answered, answered)
    },
  }
}
