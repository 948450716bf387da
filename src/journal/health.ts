/** What is wrong with a gateway's journal, and whether lines are lost by it. */

/**
 * `unreadable`: this process can't read it. `unwritable`: the service can't write beside it. `silent`: no line of a
 * request that was allowed. `envoy`: Envoy could not write its log. These lose lines. `script`: Envoy's log
 * has what the script could not write. `flush`: Envoy writes its log late. `kept`: the disk below DATA_DIR does not
 * take sums or copies. `mismatch`: of users and modes.
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

/** `onChange`: called once when a problem begins, with its cause, and once when it ends. */
export function createJournalHealth(
  onChange: (problem: JournalProblem, isThere: boolean, cause: unknown) => void,
) {
  const problems = new Set<JournalProblem>()
  let isFailing = false

  return {
    get problems(): readonly JournalProblem[] {
      return [...problems]
    },
    /** Whether lines are lost. */
    get isFailing(): boolean {
      return isFailing
    },
    /** Whether they are lost for another reason than this one, too. */
    isFailingBeside: (one: JournalProblem): boolean =>
      [...problems].some((each) => each !== one && losing.has(each)),
    has: (problem: JournalProblem): boolean => problems.has(problem),
    /** `cause` undefined: it is not there, or not any more. */
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
