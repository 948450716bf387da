import { test } from 'tap'
import {
  isKnownZone,
  maxWindowMs,
  parseDuration,
  parseTimestamp,
  parseWindow,
  zoneOffsetAt,
} from '../../src/formats/time.ts'

test('a zone is known by its IANA name', async (t) => {
  const known =
    'Europe/Zurich UTC GMT EST EST5EDT GB NZ-CHAT W-SU Etc/GMT-14 Etc/UTC Asia/Kolkata Europe/Kyiv'
  const odd = 'America/Argentina/Buenos_Aires America/Port-au-Prince Antarctica/DumontDUrville'
  const hidden = 'Africa/Dar_es_Salaam Europe/Isle_of_Man America/North_Dakota/New_Salem'
  for (const name of [known, odd, hidden].join(' ').split(' ')) t.ok(isKnownZone(name), name)
  for (const name of Intl.supportedValuesOf('timeZone')) t.ok(isKnownZone(name), name)
})

test('offsets, abbreviations and other spellings are no zones', async (t) => {
  const offsets = [
    '+05:00',
    '-08',
    '+0530',
    'GMT+5',
    'UTC+1',
    'Etc/GMT+99',
    'PST',
    'IST',
    'SystemV/PST8',
  ]
  const spelled = [
    'europe/zurich',
    'EUROPE/ZURICH',
    'asia/kolkata',
    'utc',
    'Europe/Zürich',
    ' UTC',
    'UTC\n',
    'UTC\0',
  ]
  const others = [
    '',
    'Local',
    'Factory',
    'Mars/Olympus',
    '__proto__',
    'constructor',
    'Europe/',
    'A'.repeat(1e6),
  ]
  for (const name of [...offsets, ...spelled, ...others])
    t.notOk(isKnownZone(name), JSON.stringify(name.slice(0, 20)))
})

test('offsets are those of clocks on the wall', async (t) => {
  const hour = 3_600_000
  const newYear = Date.UTC(2027, 0, 1)
  t.equal(zoneOffsetAt('Europe/Zurich', newYear), hour)
  t.equal(zoneOffsetAt('Asia/Kathmandu', newYear + 123), 5.75 * hour)
  t.equal(zoneOffsetAt('America/St_Johns', newYear), -3.5 * hour)
})

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

test('a duration is a sum of units, largest first', async (t) => {
  for (const [text, expected] of [
    ['30d', 30 * day],
    ['1.5d', 1.5 * day],
    ['0.001d', 0.001 * day],
    ['1.5h', 1.5 * hour],
    ['90m', 90 * minute],
    ['3600s', hour],
    ['2h30m', 2.5 * hour],
    ['1h45m30s', hour + 45 * minute + 30 * second],
    ['1h30s', hour + 30 * second],
    ['0s', 0],
    ['0d', 0],
    ['007m', 7 * minute],
  ] as const) {
    t.equal(parseDuration(text), expected, text)
  }
})

test('everything else is refused as a duration', async (t) => {
  for (const text of [
    '1d12h',
    '12h1d',
    '1d1d',
    '30m2h',
    '5m5m',
    '1h1h',
    '',
    ' ',
    '3600',
    '0',
    'd',
    'h',
    '.5h',
    '1.h',
    '1..5h',
    '1.5.5d',
    '1h 30m',
    ' 30d',
    '30d ',
    '30 d',
    '30d\n',
    '\n30d',
    '1w',
    '1y',
    '1ms',
    '10us',
    '5ns',
    'abc',
    '30D',
    '1H',
    '-5m',
    '+5m',
    '-1d',
    '--1d',
    '1h-5m',
    'NaNd',
    'Infd',
    'Infinityd',
    '1e-3d',
    '1e3s',
    '0x1p3d',
    '0x10s',
    '1_000s',
    '1,5h',
    '٣d',
    '１d',
    `${'9'.repeat(16)}d`,
    `${'9'.repeat(400)}s`,
  ]) {
    t.equal(parseDuration(text), undefined, JSON.stringify(text))
  }
})

test('a window is one number and one unit', async (t) => {
  for (const [text, expected] of [
    ['1s', second],
    ['60s', minute],
    ['1m', minute],
    ['9999m', 9_999 * minute],
    ['24h', day],
    ['8784h', 366 * day],
    ['9999s', 9_999 * second],
  ] as const) {
    t.equal(parseWindow(text), expected, text)
  }
  t.equal(maxWindowMs, 366 * day)
})

test('other windows are refused', async (t) => {
  for (const text of [
    '',
    '0s',
    '0m',
    '0h',
    '01m',
    '00001m',
    '10000s',
    '8785h',
    '9999h',
    '1d',
    '1.5h',
    '1h30m',
    'm',
    '1',
    '1M',
    ' 1m',
    '1m ',
    '1m\n',
    '-1m',
    '+1m',
    '1e3s',
    '1ms',
  ]) {
    t.equal(parseWindow(text), undefined, JSON.stringify(text))
  }
})

test('a day is one that the calendar has', async (t) => {
  const read: Readonly<Record<string, string>> = {
    '2026-03-01': '2026-03-01T00:00:00.000Z',
    '2028-02-29': '2028-02-29T00:00:00.000Z',
    '2026-03-01T12:00:00.5+02:00': '2026-03-01T10:00:00.500Z',
    '2026-03-01t12:00:00z': '2026-03-01T12:00:00.000Z',
  }
  for (const [text, instant] of Object.entries(read))
    t.equal(parseTimestamp(text), Date.parse(instant), text)
  for (const day of ['2026-02-29', '2026-02-30', '2026-04-31', '2026-00-10', '2026-01-00']) {
    t.equal(parseTimestamp(day), undefined, day)
    t.equal(parseTimestamp(`${day}T12:00:00Z`), undefined, `a time on ${day}`)
  }
  for (const text of ['', 'now', '2026', '2026-03', '2026-03-01T12:00Z', '2026-03-01 12:00:00Z'])
    t.equal(parseTimestamp(text), undefined, text)
})
