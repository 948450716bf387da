import { test } from 'tap'
import { readPrice } from '../../src/formats/money.ts'

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
    t.equal(readPrice(written), price, written)
  }
})

test('anything else is no price', async (t) => {
  for (const written of [
    ...['$0.000002', '0,000002', 'free', '-0.1', '+1', '', '.', 'e5', '1e', '1e5.5', ' 1', '1 '],
    ...['1e12', '1e-25', '1e999', '1e-999', '1e1000', '0x10', '1_000', 'NaN', 'Infinity', '1.2.3'],
    ...['1\n', '٣', '1'.repeat(1_000_000), `0.${'0'.repeat(1_000_000)}1`],
  ]) {
    t.equal(readPrice(written), undefined, written.slice(0, 20))
  }
})
