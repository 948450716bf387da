import { test } from 'tap'
import { maxExactInt } from '../../src/formats/exact.ts'
import {
  formatMoney,
  formatPriceUnits,
  parseMoney,
  parsePrice,
  priceUnitsToNano,
  toPriceUnits,
} from '../../src/formats/money.ts'

test('money is shown without exponent and without zeros at its end', async (t) => {
  for (const [nano, shown] of [
    [0, '0'],
    [1, '0.000000001'],
    [1_500_000_000, '1.5'],
    [10n ** 18n, '1000000000'],
    [9_000_000_000n * 10n ** 9n, '9000000000'],
    [maxExactInt, '9223372036.854775807'],
    [-10_000_000, '-0.01'],
  ] as const) {
    t.equal(formatMoney(nano), shown)
  }
})

test('money is read as it is shown, exactly', async (t) => {
  for (const [text, nano] of [
    ['0', 0],
    ['500', 500_000_000_000],
    ['0.000000001', 1],
    ['007.50', 7_500_000_000],
    ['9000000.123456789', 9_000_000_123_456_789],
    ['9007199.254740993', 9_007_199_254_740_993n],
    ['9000000000', 9_000_000_000n * 10n ** 9n],
    ['9000000000.000000000', 9_000_000_000n * 10n ** 9n],
  ] as const) {
    t.equal(parseMoney(text), nano, text)
    t.equal(parseMoney(formatMoney(nano)), nano)
  }
  for (const text of [
    ...['', '.', '.5', '5.', '-1', '+1', '1e3', '1,5', ' 1', '0.0000000001', '١'],
    ...['9000000000.000000001', '9000000001', '10000000000', '00000000001', 'NaN'],
  ]) {
    t.equal(parseMoney(text), undefined, text)
  }
})

test('a price multiplies without rounding and is rounded up once', async (t) => {
  const least = '0.000000000000000000000001'
  t.equal(toPriceUnits(least), 1n)
  t.equal(formatPriceUnits(toPriceUnits(least) * 3n), '0.000000000000000000000003')
  t.equal(formatPriceUnits(toPriceUnits('12.5') * 2n), '25')
  t.equal(priceUnitsToNano(0n), 0n)
  t.equal(priceUnitsToNano(1n), 1n)
  t.equal(priceUnitsToNano(toPriceUnits('0.000000001')), 1n)
  t.equal(priceUnitsToNano(toPriceUnits('0.000000001') + 1n), 2n)
})

test('a price is read in each form that people and tools write', async (t) => {
  for (const [written, price] of [
    ['0.000002', '0.000002'],
    ['1.5e-07', '0.00000015'],
    ['1.5E-7', '0.00000015'],
    ['2E-6', '0.000002'],
    ['.5', '0.5'],
    ['5.', '5'],
    ['0', '0'],
    ['0.0', '0'],
    ['0e-300', '0'],
    ['007.50', '7.5'],
    ['12.5e3', '12500'],
    ['12.5e+1', '125'],
    ['1e11', '100000000000'],
    ['0.000000000001e12', '1'],
    ['1e-24', '0.000000000000000000000001'],
    ['999999999999.999999999999999999999999', '999999999999.999999999999999999999999'],
  ] as const) {
    t.equal(parsePrice(written), price, written)
  }
})

test('anything else is no price', async (t) => {
  for (const written of [
    ...['$0.000002', '0,000002', 'free', '-0.1', '+1', '', '.', 'e5', '1e', '1e5.5', ' 1', '1 '],
    ...['1e12', '1e-25', '1e999', '1e-999', '1e1000', '0x10', '1_000', 'NaN', 'Infinity', '1.2.3'],
    ...['1\n', '٣', '1'.repeat(1_000_000), `0.${'0'.repeat(1_000_000)}1`],
  ]) {
    t.equal(parsePrice(written), undefined, written.slice(0, 20))
  }
})
