import { test } from 'tap'
import { lastValue } from '../../src/formats/header-value.ts'

test('the last value that is not blank counts', async (t) => {
  for (const [header, value] of [
    [undefined, undefined],
    ['', undefined],
    [' , ,\t', undefined],
    ['a', 'a'],
    ['a,b', 'b'],
    [' a b , ', 'a b'],
    ['a,b c\u00a0,,\u00a0,', 'b c'],
  ] as const) {
    t.equal(lastValue(header), value, JSON.stringify(header))
  }
})
