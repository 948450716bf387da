/** Reads what `tap run` prints and keeps the score: tests, not assertions. */
import { inspect } from 'node:util'
import { Parser, type Result } from 'tap-parser'

/** What is known once a run has ended. */
export interface Score {
  passed: number
  failed: number
  skipped: number
}

/**
 * Follows one TAP stream (write to `parser`). Announces each file by `print` as it ends, with
 * what its tests had to say and failures with their diagnostics. A test is a test() of a file, or an assertion outside of any; a file that
 * fails without a failed test (it did not load, it timed out) counts as one that failed.
 */
export function createTapReport(print: (line: string) => void) {
  const score: Score = { passed: 0, failed: 0, skipped: 0 }
  const skips: string[] = []
  const parser = new Parser()

  parser.on('child', (file: Parser) => {
    const before = { ...score }
    const failures: string[] = []
    const stray: string[] = []
    const figures: string[] = []
    file.on('assert', (result: Result) => {
      if (result.skip || result.todo) {
        score.skipped += 1
        skips.push(`${file.name} > ${result.name} (${reason(result)})`)
      } else if (result.ok) score.passed += 1
      else score.failed += 1
    })
    collect(file, [], failures, stray)
    gatherComments(file, figures)
    closings.set(file.name, (result) => {
      if (!result.ok && score.failed === before.failed) {
        score.failed += 1
        failures.push(describe([], result))
      }
      const count = score.passed - before.passed
      const time = `${((result.time ?? 0) / 1000).toFixed(1)} s`
      print(`${result.ok ? 'ok  ' : 'FAIL'} ${file.name} (${count} passed, ${time})`)
      for (const line of figures) print(`     ${line}`)
      if (result.ok) return
      for (const line of [...failures, ...stray.slice(-50)]) print(line.replace(/^/gm, '     '))
    })
  })

  const closings = new Map<string, (result: Result) => void>()
  parser.on('assert', (result: Result) => {
    const close = closings.get(result.name)
    if (close !== undefined) close(result)
    else if (!result.ok) {
      score.failed += 1
      print(describe([], result))
    }
  })
  parser.on('bailout', (why: string) => {
    score.failed += 1
    print(`FAIL the run was given up: ${why}`)
  })
  return { parser, score, skips }
}

/** Gathers the failed assertions at every depth, each with the titles that lead to it. */
function collect(parser: Parser, path: string[], failures: string[], stray: string[]): void {
  /** How many failures there were when each test began. */
  const begun = new Map<string, number>()
  parser.on('extra', (text: string) => stray.push(text.trimEnd()))
  parser.on('child', (child: Parser) => {
    begun.set(child.name, failures.length)
    collect(child, [...path, child.name], failures, stray)
  })
  parser.on('assert', (result: Result) => {
    if (result.ok || result.todo) return
    // A test whose failed assertion is shown already is no news; one that threw or timed out is.
    const before = begun.get(result.name) ?? failures.length
    if (failures.length === before) failures.push(describe(path, result))
  })
}

/** What tests have to say besides (`t.comment`), seeds and figures; not what tap adds by itself. */
function gatherComments(parser: Parser, comments: string[]): void {
  parser.on('child', (child: Parser) => gatherComments(child, comments))
  parser.on('comment', (text: string) => {
    if (!/^# (Subtest|time=|\{|No coverage)/.test(text)) comments.push(text.trimEnd())
  })
}

/** What the runner tells of how it ran a file, which is no clue to why the file failed. */
const NO_CLUE = new Set(['source', 'stdio', 'cwd', 'externalID', 'command', 'args', 'jobId'])

function describe(path: string[], { name, diag }: Result): string {
  const { at, stack, diff, ...others } = (diag ?? {}) as Record<string, unknown>
  const rest = Object.fromEntries(Object.entries(others).filter(([key]) => !NO_CLUE.has(key)))
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
