/** The problems of a gateway's journal, and whether they lose lines. */

/**
 * These lose lines: `unreadable`: this process cannot read it. `unwritable`: the service cannot write to its folder.
 * `silent`: an allowed request has no line. `envoy`: Envoy could not write its log.
 *
 * These do not: `script`: the script could not write lines, which are in Envoy's log instead. `flush`: Envoy flushes
 * its log late. `kept`: the disk below DATA_DIR fails or hangs. `mismatch`: a file has the wrong owner or mode.
 */
export type JournalProblem =
  | 'unreadable'
  | 'unwritable'
  | 'silent'
  | 'envoy'
  | 'script'
  | 'flush'
  | 'kept'
  | 'mismatch'

const losing: ReadonlySet<JournalProblem> = new Set(['unreadable', 'unwritable', 'silent', 'envoy'])

export type JournalHealth = ReturnType<typeof createJournalHealth>

/** `onChange` is called once when a problem begins, with its cause, and once when it ends. */
export function createJournalHealth(
  onChange: (problem: JournalProblem, isThere: boolean, cause: unknown) => void,
) {
  const problems = new Set<JournalProblem>()
  let isFailing = false

  return {
    get problems(): readonly JournalProblem[] {
      return [...problems]
    },
    /** Whether lines are being lost. */
    get isFailing(): boolean {
      return isFailing
    },
    /** Whether a problem other than this one loses lines. */
    isFailingBeside: (one: JournalProblem): boolean =>
      [...problems].some((each) => each !== one && losing.has(each)),
    has: (problem: JournalProblem): boolean => problems.has(problem),
    /** Begins or ends a problem; `cause` is undefined if it does not exist or has ended. */
    note(problem: JournalProblem, cause: unknown): void {
      const isThere = cause !== undefined
      if (problems.has(problem) === isThere) return
      if (isThere) problems.add(problem)
      else problems.delete(problem)
      isFailing = [...problems].some((each) => losing.has(each))
      onChange(problem, isThere, cause)
    },
  }
}
