/** The problems of a gateway's journal, and whether they lose lines. */

/**
 * The problems that lose lines. `unreadable`: this process cannot read it. `unwritable`: the service cannot write to its
 * folder. `silent`: an allowed request has no line. `envoy`: Envoy could not write its log.
 */
const losing = ['unreadable', 'unwritable', 'silent', 'envoy'] as const

type Harmless = 'script' | 'flush' | 'rotation' | 'kept' | 'mismatch'

/**
 * Those, and others that lose no lines. `script`: the script could not write lines at once: it freed the ballast of a
 * full disk, or they are in Envoy's log. `flush`: Envoy flushes its log late. `rotation`: a file cannot be renamed, so
 * that it grows. `kept`: the disk below DATA_DIR fails or hangs. `mismatch`: a file has the wrong owner or mode.
 */
export type JournalProblem = (typeof losing)[number] | Harmless

export type JournalHealth = ReturnType<typeof createJournalHealth>

/** `onChange` is called once when a problem begins, with its cause, and once when it ends. */
export function createJournalHealth(
  onChange: (problem: JournalProblem, isThere: boolean, cause: unknown) => void,
) {
  const problems = new Set<JournalProblem>()

  const isFailingBeside = (one?: JournalProblem): boolean =>
    losing.some((each) => each !== one && problems.has(each))

  return {
    get problems(): readonly JournalProblem[] {
      return [...problems]
    },
    /** Whether lines are being lost. */
    get isFailing(): boolean {
      return isFailingBeside()
    },
    /** Whether a problem other than this one loses lines. */
    isFailingBeside,
    has: (problem: JournalProblem): boolean => problems.has(problem),
    /** Begins or ends a problem; `cause` is undefined if it does not exist or has ended. */
    note(problem: JournalProblem, cause: unknown): void {
      const isThere = cause !== undefined
      if (problems.has(problem) === isThere) return
      if (isThere) problems.add(problem)
      else problems.delete(problem)
      onChange(problem, isThere, cause)
    },
  }
}
