/** Reads the TAP output of test files and counts passed and failed tests, not assertions. */
import { inspect } from 'node:util'
import { Parser, type Result, type TapError } from 'tap-parser'

/** The result of a run. */
export interface Score {
  passed: number
  failed: number
  skipped: number
}

/** How the process of a test file ended: the reason unless it exited with 0, and its duration. */
export interface FileEnd {
  readonly fault: string | undefined
  readonly ms: number
}

/** One file: write its output to `parser`, end that, then report how its process ended. */
export interface FileReport {
  readonly parser: Parser
  end(end: FileEnd): void
}

/**
 * Prints each file as it ends, with its comments and its failures. A test is a test() of a file, or
 * an assertion outside of any; a file that fails without a failed test (it did not load, or it
 * timed out) counts as one failed test.
 */
export function createTapReport(print: (line: string) => void) {
  const score: Score = { passed: 0, failed: 0, skipped: 0 }
  let skips: string[] = []
  const times: { readonly name: string; readonly ms: number }[] = []
  /** What each failed file has added to the score. */
  const failedFiles = new Map<string, Score>()

  const begin = (name: string): FileReport => {
    const parser = new Parser()
    const failures: string[] = []
    const stray: string[] = []
    const figures: string[] = []
    let [passed, failed, skipped] = [0, 0, 0]
    parser.on('assert', (result: Result) => {
      if (result.skip || result.todo) {
        skipped += 1
        skips.push(`${name} > ${result.name} (${reason(result)})`)
      } else if (result.ok) passed += 1
      else failed += 1
    })
    collect(parser, [], failures, stray)
    gatherComments(parser, figures)
    const end = ({ fault, ms }: FileEnd) => {
      const isEmpty = passed + failed + skipped === 0
      const ok = parser.ok && fault === undefined && !isEmpty
      if (!ok && failed === 0) {
        failed = 1
        const problems = [fault, isEmpty && 'no tests', ...parser.failures.map(tapError)]
        failures.push(`* ${name}\n  ${problems.filter(Boolean).join(', ')}`)
      }
      score.passed += passed
      score.failed += failed
      score.skipped += skipped
      if (!ok) failedFiles.set(name, { passed, failed, skipped })
      times.push({ name, ms })
      print(`${ok ? 'ok  ' : 'FAIL'} ${name} (${passed} passed, ${inSeconds(ms)})`)
      for (const line of figures) print(`     ${line}`)
      if (ok) return
      for (const line of [...failures, ...stray.slice(-50)]) print(line.replace(/^/gm, '     '))
    }
    return { parser, end }
  }

  /** The slowest files, as lines. */
  const slowest = (count: number): string[] =>
    times
      .sort((a, b) => b.ms - a.ms)
      .slice(0, count)
      .map(({ name, ms }) => `${inSeconds(ms).padStart(8)}  ${name}`)

  /** Removes the failed files from the score and returns their names, to run them again. */
  const retractFailures = (): string[] => {
    const names = [...failedFiles.keys()]
    for (const [name, { passed, failed, skipped }] of failedFiles) {
      score.passed -= passed
      score.failed -= failed
      score.skipped -= skipped
      skips = skips.filter((skip) => !skip.startsWith(`${name} > `))
    }
    failedFiles.clear()
    return names
  }

  return {
    ...{ begin, score, slowest, retractFailures },
    /** The tests that were skipped, as lines. */
    get skips(): readonly string[] {
      return skips
    },
    /** The files that have failed. */
    get failedFiles(): readonly string[] {
      return [...failedFiles.keys()]
    },
  }
}

/** Violations of TAP itself, such as a wrong plan. */
function tapError({ tapError }: TapError): string | null {
  return tapError
}

/** Collects the failed assertions at every depth, each with the titles that lead to it. */
function collect(parser: Parser, path: string[], failures: string[], stray: string[]): void {
  /** The number of failures when each test began. */
  const begun = new Map<string, number>()
  parser.on('extra', (text: string) => stray.push(text.trimEnd()))
  parser.on('child', (child: Parser) => {
    begun.set(child.name, failures.length)
    collect(child, [...path, child.name], failures, stray)
  })
  parser.on('assert', (result: Result) => {
    if (result.ok || result.todo) return
    // A test whose failed assertion is listed is not listed again; one that threw or timed out is.
    const before = begun.get(result.name) ?? failures.length
    if (failures.length === before) failures.push(describe(path, result))
  })
}

/** Comments of tests (`t.comment`), such as seeds and figures, without those that tap adds. */
function gatherComments(parser: Parser, comments: string[]): void {
  parser.on('child', (child: Parser) => gatherComments(child, comments))
  parser.on('comment', (text: string) => {
    if (!/^# (Subtest|time=|\{|No coverage)/.test(text)) comments.push(text.trimEnd())
  })
}

function describe(path: string[], { name, diag }: Result): string {
  const { at, stack, diff, source: _shownByAt, ...rest } = (diag ?? {}) as Record<string, unknown>
  const lines = [`* ${[...path, name].join(' > ')}`]
  if (typeof at === 'object' && at !== null) {
    const { fileName, lineNumber } = at as Record<string, unknown>
    lines.push(`  at ${fileName}:${lineNumber}`)
  }
  if (typeof diff === 'string') lines.push(diff.trimEnd().replace(/^/gm, '  '))
  if (Object.keys(rest).length > 0) {
    lines.push(inspect(rest, { depth: 8, breakLength: 96 }).replace(/^/gm, '  '))
  }
  if (typeof stack === 'string') lines.push(stack.trimEnd().replace(/^/gm, '    '))
  return lines.join('\n')
}

function reason({ skip, todo }: Result): string {
  if (typeof skip === 'string') return skip
  return typeof todo === 'string' ? `to do: ${todo}` : 'skipped'
}

function inSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
