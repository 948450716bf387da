import { test } from 'tap'
import { createTapReport } from './tap-report.ts'

const GOOD = `TAP version 14
ok 1 - one works # time=1ms
ok 2 - needs a thing # SKIP no thing
1..2
`
const BAD = `TAP version 14
# Subtest: outer claim
    # Subtest: inner claim
        # seed 7
        not ok 1 - two is one
          ---
          at:
            fileName: test/bad.test.ts
            lineNumber: 7
          diff: |
            -1
            +2
          ...
        1..1
    not ok 1 - inner claim
    1..1
not ok 1 - outer claim
1..1
`

function reportOf(files: Record<string, { tap: string; fault?: string | undefined; ms: number }>) {
  const printed: string[] = []
  const report = createTapReport((line) => printed.push(line))
  for (const [name, { tap, fault, ms }] of Object.entries(files)) {
    const file = report.begin(name)
    file.parser.end(tap)
    file.end({ fault, ms })
  }
  return { ...report, printed }
}

test('tests are counted, not assertions', async (t) => {
  const report = reportOf({
    'test/good.test.ts': { tap: GOOD, ms: 1200 },
    'test/bad.test.ts': { tap: BAD, fault: 'exit code 1', ms: 5 },
  })
  t.strictSame(report.score, { passed: 1, failed: 1, skipped: 1 })
  t.strictSame(report.skips, ['test/good.test.ts > needs a thing (no thing)'])
  t.strictSame(report.printed, [
    'ok   test/good.test.ts (1 passed, 1.2 s)',
    'FAIL test/bad.test.ts (0 passed, 0.0 s)',
    '     # seed 7',
    [
      '     * outer claim > inner claim > two is one',
      '       at test/bad.test.ts:7',
      '       -1',
      '       +2',
    ].join('\n'),
  ])
})

test('a file that fails to load or end counts as a failed test', async (t) => {
  const cases: [name: string, tap: string, fault: string | undefined, told: RegExp][] = [
    ['did not load', '', 'exit code 1', /exit code 1, no tests/],
    ['ended in the middle', 'TAP version 14\nok 1 - one works\n', undefined, /plan/],
    ['failed after its tests', GOOD, 'ended by SIGKILL', /ended by SIGKILL/],
    ['has no tests', 'TAP version 14\n1..0\n', undefined, /no tests/],
  ]
  for (const [name, tap, fault, told] of cases) {
    const { score, printed } = reportOf({ [name]: { tap, fault, ms: 9 } })
    t.equal(score.failed, 1, name)
    t.match(printed[0], `FAIL ${name} (`)
    t.match(printed[1], told)
  }
})

test('the slowest files are named', async (t) => {
  const { slowest } = reportOf({
    'test/a.test.ts': { tap: GOOD, ms: 900 },
    'test/b.test.ts': { tap: GOOD, ms: 12_340 },
    'test/c.test.ts': { tap: GOOD, ms: 1000 },
  })
  t.strictSame(slowest(2), ['  12.3 s  test/b.test.ts', '   1.0 s  test/c.test.ts'])
})

test('files that are run again count once', (t) => {
  const report = createTapReport(() => {})
  const run = (name: string, tap: string) => {
    const file = report.begin(name)
    file.parser.end(tap)
    file.end({ fault: undefined, ms: 1 })
  }
  run('test/good.test.ts', GOOD)
  run('test/bad.test.ts', BAD + GOOD.replace('TAP version 14\n', ''))
  t.strictSame(report.failedFiles, ['test/bad.test.ts'])
  t.strictSame(report.retractFailures(), ['test/bad.test.ts'])
  t.strictSame(report.failedFiles, [])
  t.strictSame(report.score, { passed: 1, failed: 0, skipped: 1 })
  run('test/bad.test.ts', GOOD)
  t.strictSame(report.score, { passed: 2, failed: 0, skipped: 2 })
  t.equal(report.skips.length, 2)
  t.end()
})
