import { test } from 'tap'
import type { ExactInt } from '../../../src/formats/exact.ts'
import { countSums, formatSums, parseSums } from '../../../src/ratelimit/rules/other-sums.ts'
import { createWindowSums, isEnded, longMs } from '../../../src/ratelimit/rules/sums.ts'
import {
  createTally,
  isWithin,
  knownUse,
  ownUseOf,
  recordFields,
  recordTotal,
  type Tally,
  ticksBetween,
  toTick,
} from '../../../src/ratelimit/rules/tally.ts'
import {
  type Calendar,
  type CounterReset,
  type WindowedCounter,
  windowAt,
} from '../../../src/ratelimit/rules/windows.ts'

const minute = 60_000
const window = { id: 'a@0', since: 0, end: minute, ms: minute }
const counter: WindowedCounter = { key: 'a', owner: 'ann', window: { ms: minute } }

test('what is known of a window only grows', async (t) => {
  const tally = createTally(window, 0)
  tally.sum = 40
  tally.base = 2
  t.equal(recordTotal(tally, 50, 80), false)
  t.match(tally, { field: 50, others: 30 })
  t.equal(knownUse(tally), 80, 'the store has more of this gateway')
  t.equal(recordTotal(tally, 10, 20), false)
  t.match(tally, { field: 50, others: 30 }, 'a late answer')
  tally.sum = 60
  t.equal(ownUseOf(tally), 62)
  t.equal(knownUse(tally), 92)
})

test('a store lacks what it had of others', async (t) => {
  const tally = createTally(window, 0)
  const found = new Map([
    ['b', 10],
    ['c', 5],
  ])
  t.strictSame(recordFields(tally, found), new Map())
  t.match(tally, { others: 15, fieldsSum: 15 })
  t.equal(recordTotal(tally, 0, 15), false)
  t.equal(recordTotal(tally, 7, 15), true, 'some of the total is its own')
  const kept = new Map([['d', 2]])
  const lacking = recordFields(tally, new Map([['b', 12]]), kept)
  t.strictSame(
    [...lacking],
    [
      ['c', 5],
      ['d', 2],
    ],
  )
  t.match(tally, { others: 19, fieldsSum: 19 })
})

test('fields are read as they were written', async (t) => {
  for (const names of [[], ['a'], ['3fk2x0qa', '.', 'old']]) {
    const fields = new Map(names.map((name, i) => [name, i + 1]))
    const text = formatSums(fields)
    t.strictSame(parseSums(text), fields)
    t.equal(countSums(text), names.length)
  }
})

test('sums beyond doubles are exact', async (t) => {
  const tally = createTally(window, 0)
  Object.assign(tally, { sum: 2 ** 53 - 1, base: 1 })
  t.equal(ownUseOf(tally), 2n ** 53n)
  t.equal(recordTotal(tally, 2n ** 53n + 1n, 2n ** 60n + 1n), false)
  t.equal(tally.others, 2n ** 60n - 2n ** 53n)
  t.equal(knownUse(tally), 2n ** 60n + 1n)
  const fields = new Map<string, ExactInt>([
    ['b', 2n ** 60n + 3n],
    ['c', 5],
  ])
  t.strictSame(parseSums(formatSums(fields)), fields)
  recordFields(tally, fields)
  t.match(tally, { fieldsSum: 2n ** 60n + 8n, others: 2n ** 60n + 8n })
  t.strictSame(
    parseSums(`d ${'9'.repeat(19)} e 1.5`),
    new Map([
      ['d', 0],
      ['e', 0],
    ]),
  )
  const sums = createWindowSums(new Map(), () => 0)
  for (const amount of [2 ** 53 - 1, 2, 2n ** 62n])
    sums.count({ at: 0, amount, counters: [counter] }, 0)
  t.equal(ownUseOf(sums.at(counter, 0)), 2n ** 62n + 2n ** 53n + 1n)
})

test('another edition of the zones’ rules moves an end, and no sum', async (t) => {
  const window: Calendar = { every: 'day', zone: 'Europe/Zurich' }
  const day: WindowedCounter = { key: 'pool', owner: 'org', window }
  const real = windowAt(day, Date.UTC(2027, 5, 10, 12))
  const hour = 60 * minute
  for (const moved of [-hour, hour]) {
    const sums = createWindowSums(new Map(), () => 0)
    const other = { ...real, since: real.since + moved, end: real.end + moved }
    // It is kept as long as it may be in use by the one or the other.
    t.equal(isEnded(other, real.end), false)
    sums.replaceOwn([{ ...other, sum: 40, base: 2 }])
    for (const at of [real.end - 1, real.since]) {
      sums.count({ at, amount: 1, counters: [day] }, real.end)
      t.match(sums.at(day, at), real)
    }
    t.match(sums.own(real.end), [{ ...real, sum: 42 }])
    t.equal(sums.at(day, real.end).id, 'pool@2027-06-11')
  }
  t.equal(isEnded(real, real.end + 2 * hour), true)
  t.ok(windowAt(day, Date.UTC(2027, 2, 28)).ms >= longMs, 'also of the shortest day')
})

test('ticks that came round are compared rightly', async (t) => {
  const late = 2 ** 31 - 5
  t.equal(ticksBetween(toTick(late), toTick(late + 20.7)), 20)
  t.equal(ticksBetween(toTick(2 ** 32 - 1), toTick(2 ** 32 + 9)), 10)
  const month = 30 * 86_400_000
  t.equal(isWithin(60_000, toTick(month), toTick(month + 59_999)), true)
  t.equal(
    isWithin(60_000, toTick(0), toTick(month)),
    false,
    'so long ago that it seems to be to come',
  )
})

test('a line counts at its own time, while its window takes it', async (t) => {
  const sums = createWindowSums(new Map(), () => 0)
  const { since, end } = sums.at(counter, 10 * minute)
  t.equal(sums.count({ at: since, amount: 3, counters: [counter] }, end + 19_999).length, 1)
  t.equal(sums.count({ at: since, amount: 3, counters: [counter] }, end + 20_000).length, 0)
  t.equal(ownUseOf(sums.at(counter, since)), 3)
  t.equal(isEnded({ id: '', since, end, ms: minute }, since - minute - 20_001), true, 'far ahead')
  sums.sweep(end + 20_000)
  t.equal(sums.all.size, 0)
})

test('a sum is dropped once the clock has said for long that its window is over', async (t) => {
  let monotonic = 0
  const sums = createWindowSums(new Map(), () => monotonic)
  const hour = { ...counter, key: 'hour', window: { ms: 60 * minute } }
  const at = 1_000 * 60 * minute
  sums.count({ at, amount: 3, counters: [hour, counter] }, at)
  t.equal(sums.own(at).length, 2)
  const tally = sums.at(hour, at)
  const [past, ahead] = [at - 365 * 86_400_000, at + 365 * 86_400_000]
  const sweep = (now: number, afterMs: number) => {
    monotonic += afterMs
    sums.sweep(now)
    return sums.all.has(tally.id)
  }
  t.ok(sweep(past, 0))
  t.strictSame([...sums.all.values()], [tally], 'a short window is dropped at once')
  for (const wrong of [past, ahead]) {
    t.ok(sweep(wrong, minute))
    t.strictSame(sums.own(wrong), [tally], 'it is saved')
    t.ok(sweep(wrong, 10 * minute - 1))
    t.ok(sweep(at, minute), 'the clock is right again')
  }
  t.equal(sums.count({ at, amount: 3, counters: [hour] }, ahead).length, 1)
  t.equal(ownUseOf(sums.at(hour, at)), 6)
  const { end } = tally
  t.ok(sweep(end + 19_999, 0))
  t.ok(sweep(end + 20_000, 0))
  t.notOk(sweep(end + 20_000, 10 * minute))
  t.equal(tally.among, undefined)
  t.not(sums.at(hour, at), tally)

  const next = sums.at(hour, ahead)
  next.sum = 1
  const isNextKept = (afterMs: number) => {
    sweep(at, afterMs)
    return sums.all.has(next.id)
  }
  t.ok(isNextKept(0))
  t.ok(isNextKept(60 * minute - 1), 'a window to come may be the present one')
  t.notOk(isNextKept(1), 'but not for longer than it lasts')
})

test('an idle window is forgotten if nobody here has counted in it', async (t) => {
  let tick = 0
  const sums = createWindowSums(new Map(), () => tick)
  sums.at(counter, 0)
  sums.at({ ...counter, key: 'own' }, 0).sum = 1
  tick = 10
  sums.at({ ...counter, key: 'later' }, 0)
  sums.sweep(0)
  t.equal(sums.all.size, 3)
  sums.sweep(0, 5)
  t.strictSame(
    [...sums.all.keys()].map((id) => id.replace(/@.*/, '')),
    ['own', 'later'],
  )
})

test('a window that was empty at its start is known', async (t) => {
  const sums = createWindowSums(new Map(), () => 0)
  const first = sums.at(counter, 10 * minute)
  t.equal(sums.at(counter, first.end + 1).isKnown, false, 'the one before was not')
  sums.sweep(Number.POSITIVE_INFINITY)
  sums.at(counter, first.since).isKnown = true
  t.equal(sums.at(counter, first.end + 999).isKnown, true)
  t.equal(sums.at(counter, first.end + minute + 1_000).isKnown, false, 'others had a second')
})

test('sums that were built anew replace those in force', async (t) => {
  const sums = createWindowSums(new Map(), () => 0)
  const tally = sums.at(counter, 0)
  Object.assign(tally, { sum: 9, base: 9, others: 5, isKnown: true })
  sums.replaceOwn([{ ...window, id: 'b@0', sum: 1, base: 2 }])
  t.match(tally, { sum: 0, base: 0, others: 5, isKnown: true })
  t.match(sums.own(0), [{ id: 'b@0', sum: 1, base: 2 }])
})

test('a counter that was reset is found by its resets', async (t) => {
  const resets = new Map<string, CounterReset[]>()
  const sums = createWindowSums(resets, () => 0)
  const tally = sums.at(counter, 10 * minute)
  resets.set('a', [{ at: tally.since + 5, used: 7 }])
  t.equal(sums.at(counter, tally.since + 5), tally)
  const after = sums.at(counter, tally.since + 6)
  t.match(after, { since: tally.since + 5, end: tally.end, fields: '. 7' })
  t.equal(knownUse(after), 7, 'it begins with what was said')
  t.equal(sums.at(counter, tally.since + 7), after)
})

test('a list of counters has the windows that were found last from the sums that are asked, while they have them', async (t) => {
  const resets = new Map<string, CounterReset[]>()
  const [one, other] = [createWindowSums(resets, () => 0), createWindowSums(new Map(), () => 0)]
  const list = Object.assign([counter, { ...counter, key: 'b' }], { last: null })
  const found = one.allAt(list, 10 * minute)
  const [tally, second] = found as [Tally, Tally]
  t.strictSame(found, [one.at(counter, 10 * minute), one.at({ ...counter, key: 'b' }, 10 * minute)])
  t.equal(list.last, found)
  t.equal(one.allAt(list, tally.end - 1), found)
  t.not(one.allAt(list, tally.end)[0], tally, 'the next window')
  t.equal(one.allAt(list, tally.since)[0], tally, 'and the one before again')
  t.not(other.allAt(list, tally.since)[0], tally, 'not that of others')
  t.equal(one.allAt(list, tally.since)[0], tally)
  resets.set('b', [{ at: tally.since + 5, used: 7 }])
  t.equal(knownUse(one.allAt(list, tally.since + 6)[1] as Tally), 7, 'nor one from before a reset')
  t.equal(one.allAt(list, tally.since + 6)[0], tally)
  one.sweep(tally.end + 20_000)
  const [again] = one.allAt(list, tally.since)
  t.not(again, tally, 'it was dropped')
  t.equal(one.all.get(tally.id), again, 'so that what is counted now is seen')
  t.equal(one.allAt([counter], tally.since)[0], again, 'also by a list that keeps nothing')
  t.not(one.allAt(list, tally.since)[1], second)
})
