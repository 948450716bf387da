import { test } from 'tap'
import { toCsv } from '../../src/formats/csv.ts'

const cell = (value: string | number) => toCsv(['a'], [{ a: value }]).slice('a\r\n'.length, -2)

test('no text is computed where the file is opened', async (t) => {
  for (const [value, shown] of [
    ['=1+1', "'=1+1"],
    ['+1', "'+1"],
    ['-1', "'-1"],
    ['@SUM(A1)', "'@SUM(A1)"],
    [' =1', "' =1"],
    ['＝1+1', "'＝1+1"],
    ['＋1', "'＋1"],
    ['－1', "'－1"],
    ['＠x', "'＠x"],
    ['\t=1', "'\t=1"],
    ['\r=1', `"'\r=1"`],
    ['x;=1', `"x;'=1"`],
    ['x; ＝1', `"x;' ＝1"`],
    ['x\n=1', `"x\n'=1"`],
    [';=1', `";'=1"`],
    ['x\t=1', "x\t'=1"],
    ['x\t \t@x', "x\t \t'@x"],
    ['x\r-1', `"x\r'-1"`],
  ] as const) {
    t.equal(cell(value), shown, JSON.stringify(value))
  }
})

test('other text and numbers stay as they are', async (t) => {
  for (const value of ['ann', 'a=1', 'team-a', 'a@b.example', 'x+y', '日本', "'=1"])
    t.equal(cell(value), value)
  t.equal(cell(-1.5), '-1.5')
  t.equal(cell('a;b'), '"a;b"')
  t.equal(cell('say "x", y'), '"say ""x"", y"')
})
