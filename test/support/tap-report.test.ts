import { test } from 'tap'
import { createTapReport } from './tap-report.ts'

const RUN = `TAP version 14
# Subtest: test/good.test.ts
    ok 1 - one works # time=1ms
    ok 2 - needs a thing # SKIP no thing
    1..2
ok 1 - test/good.test.ts # time=1200ms
# Subtest: test/bad.test.ts
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
not ok 2 - test/bad.test.ts # time=5ms
# Subtest: test/broken.test.ts
    1..0 # no tests found
not ok 3 - test/broken.test.ts # time=9ms
  ---
  exitCode: 1
  args: [ "a", "b" ]
  ...
1..3
`

test('tests are counted, not assertions', async (t) => {
  const printed: string[] = []
  const report = createTapReport((line) => printed.push(line))
  report.parser.end(RUN)
  t.strictSame(report.score, { passed: 1, failed: 2, skipped: 1 })
  t.strictSame(report.skips, ['test/good.test.ts > needs a thing (no thing)'])
  t.strictSame(printed, [
    'ok   test/good.test.ts (1 passed, 1.2 s)',
    'FAIL test/bad.test.ts (0 passed, 0.0 s)',
    '     # seed 7',
    [
      '     * outer claim > inner claim > two is one',
      '       at test/bad.test.ts:7',
      '       -1',
      '       +2',
    ].join('\n'),
    'FAIL test/broken.test.ts (0 passed, 0.0 s)',
    '     * test/broken.test.ts\n       { exitCode: 1 }',
  ])
})
