import { test } from 'tap'
import {
  addExact,
  type ExactInt,
  maxExact,
  maxExactInt,
  parseExact,
  subtractExact,
} from '../../src/formats/exact.ts'

const safe = Number.MAX_SAFE_INTEGER

test('whole numbers are numbers while these are exact', async (t) => {
  const sums: readonly (readonly [ExactInt, ExactInt, ExactInt])[] = [
    [1, 2, 3],
    [safe - 1, 1, safe],
    [safe, 1, 2n ** 53n],
    [2n ** 53n, -1, safe],
    [2n ** 60n, 3, 2n ** 60n + 3n],
  ]
  for (const [one, other, sum] of sums) {
    t.equal(addExact(one, other), sum)
    t.equal(subtractExact(sum, other), one)
    t.equal(subtractExact(sum, one), other)
    t.equal(maxExact(one, sum), sum > one ? sum : one)
  }
})

test('a sum ends at the most there is room for', async (t) => {
  t.equal(addExact(maxExactInt - 1n, 1), maxExactInt)
  t.equal(addExact(maxExactInt, 1), maxExactInt)
  t.equal(addExact(maxExactInt, maxExactInt), maxExactInt)
})

test('digits are read exactly, or not at all', async (t) => {
  t.equal(parseExact('0'), 0)
  t.equal(parseExact(`${safe}`), safe)
  t.equal(parseExact('9007199254740993'), 2n ** 53n + 1n)
  t.equal(parseExact(`${maxExactInt}`), maxExactInt)
  for (const text of [
    '',
    '-1',
    '1.5',
    '1e3',
    '0x1',
    ' 1',
    `${maxExactInt + 1n}`,
    '1'.repeat(1e6),
  ]) {
    t.equal(parseExact(text), undefined, text.slice(0, 20))
  }
})
