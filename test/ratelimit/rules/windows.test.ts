import { test } from 'tap'
import {
  boundsAt,
  type Calendar,
  parseWindowText,
  type WindowedCounter,
  windowAt,
  windowText,
} from '../../../src/ratelimit/rules/windows.ts'
import { createRandom } from '../../support/random.ts'

const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kathmandu', 'Australia/Lord_Howe']
// Clocks are put forward at midnight; a day was left out.
const oddZones = ['America/Santiago', 'Asia/Beirut', 'Africa/Cairo', 'Pacific/Apia']
const [from, to] = [Date.UTC(2010, 0, 1), Date.UTC(2031, 0, 1)]
const minute = 60_000
const hour = 60 * minute

test('windows of a calendar adjoin in every zone', async (t) => {
  const year = Date.UTC(2027, 0, 1)
  const rules = [
    { every: 'day', since: year, until: Date.UTC(2028, 0, 1) },
    { every: 'day', since: Date.UTC(2011, 11, 20), until: Date.UTC(2012, 0, 5) },
    { every: 'week', since: year, until: Date.UTC(2029, 0, 1) },
    { every: 'week', startsOn: 0, since: year, until: Date.UTC(2029, 0, 1) },
    { every: 'month', since: Date.UTC(2020, 0, 1), until: to },
    { every: 'month', startsOn: 28, since: year, until: to },
  ] as const
  for (const zone of [...zones, ...oddZones]) {
    for (const { since, until, ...rule } of rules) {
      t.equal(firstFault({ ...rule, zone }, since, until), undefined, `${zone} ${rule.every}`)
    }
  }
})

/** The first instant of a window that does not adjoin the next one, or has ends of other windows. */
function firstFault(window: Calendar, since: number, until: number): string | undefined {
  // A second object: it does not remember the span that is asked for next.
  const anew = { ...window }
  for (let at = since; at < until; ) {
    const { start, end } = boundsAt(window, 'ann', at)
    const last = boundsAt(anew, 'bob', end - 1)
    const next = boundsAt(anew, 'bob', end)
    const isWhole = start <= at && at < end && last.start === start && last.end === end
    if (!isWhole || next.start !== end) return new Date(at).toISOString()
    at = end
  }
  return undefined
}

test('windows of a calendar begin with the first instant of a local date', async (t) => {
  // Midnight does not exist, or comes twice; half an hour is put forward; a leap day.
  const year = [Date.UTC(2027, 1, 20), Date.UTC(2028, 2, 20), 15 * minute] as const
  for (const zone of ['Europe/Zurich', 'America/Santiago', 'America/Havana', 'Australia/Lord_Howe'])
    compare(zone, ...year)
  // A minute after midnight the clocks were put back to the day before.
  compare('America/St_Johns', Date.UTC(2010, 9, 1), Date.UTC(2010, 11, 12), minute)

  function compare(zone: string, since: number, until: number, step: number): void {
    const dates = firstInstants(zone, since, until, step)
    const calendars: Calendar[] = [{ every: 'day', zone }]
    for (let startsOn = 0; startsOn < 7; startsOn += 1)
      calendars.push({ every: 'week', zone, startsOn })
    for (let startsOn = 1; startsOn < 29; startsOn += 1)
      calendars.push({ every: 'month', zone, startsOn })
    for (const calendar of calendars) {
      const begins = dates.filter(([date]) => isFirst(calendar, new Date(date)))
      for (const [i, [date, start]] of begins.slice(0, -1).entries()) {
        const [, end] = begins[i + 1] as (typeof begins)[0]
        for (const at of [start, start + hour / 2, Math.floor((start + end) / 2), end - 1]) {
          // A new object, which remembers no other span.
          const span = boundsAt({ ...calendar }, 'ann', at)
          const isRight = span.start === start && span.end === end && span.date === date
          if (!isRight) t.strictSame(span, { start, end, date }, windowText(calendar))
        }
      }
      t.ok(begins.length > 1, windowText(calendar))
    }
  }
})

/** What a clock in the zone shows, step by step: each new date with the instant at which it is first seen. */
function firstInstants(zone: string, since: number, until: number, step: number) {
  const format = new Intl.DateTimeFormat('sv', { timeZone: zone })
  const found: (readonly [date: string, at: number])[] = []
  for (let at = since; at < until; at += step) {
    const date = format.format(at)
    if (date > (found.at(-1)?.[0] ?? '')) found.push([date, at])
  }
  // The first one was not seen from its beginning.
  return found.slice(1)
}

function isFirst({ every, startsOn }: Calendar, date: Date): boolean {
  if (every === 'day') return true
  return startsOn === (every === 'week' ? date.getUTCDay() : date.getUTCDate())
}

test('consecutive questions about a calendar are answered from memory', async (t) => {
  const counter = {
    key: 'pool',
    owner: 'org',
    window: parseWindowText('day@America/Havana') as Calendar,
  }
  const midnight = windowAt(counter, Date.UTC(2027, 2, 14)).end
  const shared = Intl.DateTimeFormat.prototype
  const real = Object.getOwnPropertyDescriptor(shared, 'format') as PropertyDescriptor
  t.teardown(() => Object.defineProperty(shared, 'format', real))
  let asked = 0
  Object.defineProperty(shared, 'format', {
    configurable: true,
    get() {
      asked += 1
      return real.get?.call(this)
    },
  })
  for (let i = 0; i < 1_000; i += 1) windowAt(counter, midnight + (i % 2 === 0 ? i : -i))
  t.ok(asked > 0 && asked < 20, `asked ${asked} times`)
})

test('windows of a length adjoin for every owner', async (t) => {
  const random = createRandom(1)
  for (let i = 0; i < 5_000; i += 1) {
    const ms = 1_000 * (1 + random.below(31_622_400))
    const at = from + random.below(600_000_000) * 1_000 + random.below(1_000)
    const owner = `user-${i}`
    const { start, end } = boundsAt({ ms }, owner, at)
    const isRight =
      start <= at &&
      at < end &&
      end - start === ms &&
      boundsAt({ ms }, owner, end - 1).start === start &&
      boundsAt({ ms }, owner, end).start === end
    if (!isRight) t.fail(`${owner} ${ms} ${at}`)
  }
})

test('owners have phases of their own', async (t) => {
  const minutes = new Set<number>()
  for (let i = 0; i < 1_000; i += 1) {
    minutes.add(Math.floor((boundsAt({ ms: hour }, `user-${i}`, from).end - from) / 60_000))
  }
  t.equal(minutes.size, 60)
})

test('a calendar names its windows by local dates', async (t) => {
  const window = { every: 'month', zone: 'America/New_York', startsOn: 5 } as const
  const counter = { key: 'pool', owner: 'org', window }
  t.equal(windowAt(counter, Date.UTC(2026, 10, 5, 4, 59)).id, 'pool@2026-10-05')
  t.equal(windowAt(counter, Date.UTC(2026, 10, 5, 5)).id, 'pool@2026-11-05')
  const day = {
    key: 'pool',
    owner: 'org',
    window: { every: 'day', zone: 'Europe/Berlin' },
  } as const
  t.equal(windowAt(day, Date.UTC(2026, 2, 28, 23)).id, 'pool@2026-03-29')
  t.equal(windowAt(day, Date.UTC(2026, 2, 28, 23)).ms, 23 * hour, 'clocks are put forward')
})

test('a reset begins a window for what ends after it', async (t) => {
  const counter: WindowedCounter = { key: 'a', owner: 'ann', window: { ms: hour } }
  const { since: start, end, id } = windowAt(counter, from)
  const resets = [start + 2_000, start + 1_000, end + 5].map((at) => ({ at, used: 0 }))
  t.equal(windowAt(counter, start + 1_000, resets).id, id, 'it ended by then')
  t.match(windowAt(counter, start + 1_001, resets), { since: start + 1_000, end, ms: hour })
  t.match(windowAt(counter, start + 3_000, resets), { since: start + 2_000, end, ms: hour })
  t.match(windowAt(counter, end, resets), { since: end, end: end + hour })
  t.equal(windowAt(counter, end + 6, resets).id, `a@${end + 5}`)
})

test('a window is what its text says', async (t) => {
  const zone = 'Europe/Zurich'
  const texts = {
    0: { ms: 0 },
    60000: { ms: 60_000 },
    'day@Europe/Zurich': { every: 'day', zone },
    'week0@Europe/Zurich': { every: 'week', zone, startsOn: 0 },
    'week6@UTC': { every: 'week', zone: 'UTC', startsOn: 6 },
    'month1@Etc/GMT-14': { every: 'month', zone: 'Etc/GMT-14', startsOn: 1 },
    'month28@Europe/Zurich': { every: 'month', zone, startsOn: 28 },
  } as const
  for (const [text, window] of Object.entries(texts)) {
    t.strictSame(parseWindowText(text), window)
    t.equal(windowText(window), text)
    t.equal(parseWindowText(text), parseWindowText(text), 'the same object')
  }
  t.equal(windowText({ every: 'month', zone }), 'month1@Europe/Zurich')
})

test('no other text is a window', async (t) => {
  const lengths = ['', '-1', '1.5', '01', '1e3', ' 1', '31622400001', '9'.repeat(1e6)]
  const starts = [
    'day',
    'day1@UTC',
    'week@UTC',
    'week7@UTC',
    'week01@UTC',
    'month0@UTC',
    'month29@UTC',
    'year@UTC',
  ]
  const zones = [
    'day@',
    'day@Mars/Olympus',
    'day@+05:00',
    'day@utc',
    'day@UTC ',
    'day@UTC\n',
    'Day@UTC',
  ]
  for (const text of [...lengths, ...starts, ...zones, '__proto__']) {
    t.equal(parseWindowText(text), undefined, text.slice(0, 20))
  }
})
