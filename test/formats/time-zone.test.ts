import { test } from 'tap'
import { isKnownZone, offsetAt } from '../../src/formats/time-zone.ts'

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
  t.equal(offsetAt('Europe/Zurich', newYear), hour)
  t.equal(offsetAt('Asia/Kathmandu', newYear + 123), 5.75 * hour)
  t.equal(offsetAt('America/St_Johns', newYear), -3.5 * hour)
})
