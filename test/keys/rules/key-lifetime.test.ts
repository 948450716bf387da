import { test } from 'tap'
import { expiryOf } from '../../../src/keys/rules/key-lifetime.ts'

const now = Date.UTC(2026, 0, 1)
const hour = 3_600_000
const day = 24 * hour

function life(
  expiresIn: unknown,
  more: { ephemeral?: boolean; maximumDays?: number } = {},
): number {
  return expiryOf({ expiresIn, ephemeral: false, maximumDays: 90, now, ...more }) - now
}

const notPositive = { code: 'invalid_lifetime', message: /positive/ }
const notReadable = { code: 'invalid_lifetime', message: /must be (like|a string or a number)/ }
const tooLong = { code: 'invalid_lifetime', message: /exceeds the maximum of 90 days/ }
const tooLongEphemeral = { code: 'invalid_lifetime', message: /exceed.*1 hour/ }

test('the default is the maximum', async (t) => {
  for (const absent of [undefined, null]) {
    t.equal(life(absent), 90 * day)
    t.equal(life(absent, { maximumDays: 7 }), 7 * day)
    t.equal(life(absent, { ephemeral: true }), hour)
  }
})

test('numbers are seconds and may have fractions', async (t) => {
  t.equal(life(3_600), hour)
  t.equal(life(1.5), 1_500)
  t.equal(life(90 * 86_400), 90 * day, 'exactly the maximum')
  t.equal(life(1e-9), 1, 'any positive lifetime ends after it begins')
  t.equal(life(Number.MIN_VALUE), 1)
})

test('strings are durations', async (t) => {
  t.equal(life('30d'), 30 * day)
  t.equal(life('1.5d'), 1.5 * day)
  t.equal(life('2h30m'), 2.5 * hour)
  t.equal(life('90d'), 90 * day, 'exactly the maximum')
  t.equal(life('2160h'), 90 * day, 'exactly the maximum in hours')
  t.equal(life('0.001s'), 1)
})

test('zero and negative lifetimes are refused', async (t) => {
  for (const expiresIn of [
    '',
    0,
    -0,
    '0',
    '0s',
    '0d',
    '0h0m0s',
    '-5m',
    '-1d',
    '-0s',
    -1,
    -1e-9,
    -1e300,
  ]) {
    t.throws(() => life(expiresIn), notPositive, JSON.stringify(expiresIn))
    t.throws(() => life(expiresIn, { ephemeral: true }), notPositive)
  }
})

test('an unreadable lifetime is answered with the format', async (t) => {
  for (const expiresIn of [
    '3600',
    '1h 30m',
    ' 30d',
    '30 d',
    '1w',
    'abc',
    '1d12h',
    '12h1d',
    'NaNd',
    'Infd',
    '1e-3d',
    '0x1p3d',
    '-',
    '--5m',
    '-3600',
    '+5m',
    ' ',
    '00',
    true,
    false,
    [],
    {},
    ['1h'],
    Symbol.iterator,
    1n,
  ]) {
    t.throws(() => life(expiresIn), notReadable, String(expiresIn))
  }
})

test('a lifetime above the maximum is refused', async (t) => {
  for (const expiresIn of [
    '91d',
    '90.00001d',
    '2160h1s',
    90 * 86_400 + 1,
    1e300,
    Infinity,
    `${'9'.repeat(15)}d`,
  ]) {
    t.throws(() => life(expiresIn), tooLong, String(expiresIn))
  }
  t.throws(() => life(Number.NaN), { code: 'invalid_lifetime' })
})

test('ephemeral keys live for an hour at most', async (t) => {
  t.equal(life('1h', { ephemeral: true }), hour)
  t.equal(life(3_600, { ephemeral: true }), hour)
  t.equal(life('60m', { ephemeral: true }), hour)
  for (const expiresIn of ['61m', '3601s', 3_600.01, '1d', 1e300]) {
    t.throws(() => life(expiresIn, { ephemeral: true }), tooLongEphemeral, String(expiresIn))
  }
  t.equal(life('1h', { ephemeral: true, maximumDays: 1 }), hour)
})
