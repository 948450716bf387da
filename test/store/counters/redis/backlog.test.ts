import { test } from 'tap'
import { createBacklog } from '../../../../src/store/counters/redis/backlog.ts'
import type {
  Sender,
  SharedCounter,
  SharedReport,
} from '../../../../src/store/counters/redis/shared-counter.ts'
import { addReported, addTokens, createView } from '../../../../src/store/counters/redis/view.ts'

const hour = 3_600_000

function counterOf(key: string): SharedCounter {
  const own = { key, keyPrefix: '', sender: {} as Sender, sumEpoch: '', lastUsedAt: 0 }
  return { ...createView(hour), ...own, named: 0, isDue: false, place: 0 }
}

/** A report of the stream, too old at `sendBy`; of the journal without it. */
function reportOf(counter: SharedCounter, sendBy = Number.POSITIVE_INFINITY): SharedReport {
  return { counters: [counter], tokens: 1, member: 'x', endedAt: 0, gatewayEndedAt: 0, sendBy }
}

test('an entry that is too old is dropped without a batch', async (t) => {
  const backlog = createBacklog()
  const counter = counterOf('a')
  for (let i = 0; i < 10_000; i += 1) {
    addReported(counter, 1, 0, 0)
    backlog.push(reportOf(counter, 100 + i))
  }
  backlog.push(reportOf(counter))
  t.ok(backlog.isFull())
  backlog.leaveOld(100 + 9_899)
  t.notOk(backlog.isFull(), 'a hundred are left')
  t.match(counter, { sending: 9_900, reported: 100 })
  t.equal(backlog.take(100 + 9_899).reports.length, 101)
  t.match(counter, { sending: 10_000, reported: 0 })
  t.ok(backlog.isEmpty())
})

test('a batch has a part for each counter of its reports', async (t) => {
  const backlog = createBacklog()
  const counters = Array.from({ length: 2_000 }, (_, i) => counterOf(`${i}`))
  for (const counter of counters) {
    addTokens(counter, 1, 0)
    backlog.enter(counter)
  }
  for (const counter of counters.toReversed()) backlog.push(reportOf(counter))
  let added = 0
  let told = 0
  while (!backlog.isEmpty()) {
    const { parts, reports } = backlog.take(0)
    t.ok(parts.length <= 768 && reports.length <= 256)
    t.equal(new Set(parts.map(({ counter }) => counter)).size, parts.length, 'none is sent twice')
    for (const { counters } of reports) {
      for (const each of counters) t.equal(parts[each.place]?.counter, each)
    }
    for (const { tokens } of parts) added += tokens
    told += reports.length
  }
  t.equal(added, 2_000)
  t.equal(told, 2_000)
})

test('a counter is held for its reports', async (t) => {
  const backlog = createBacklog()
  const counter = counterOf('a')
  t.notOk(backlog.holds(counter))
  for (let i = 0; i < 300; i += 1) backlog.push(reportOf(counter))
  backlog.take(0)
  t.ok(backlog.holds(counter), 'some wait for the next batch')
  backlog.take(0)
  t.notOk(backlog.holds(counter))
})

test('the journal gets its share of a batch', async (t) => {
  const backlog = createBacklog()
  const [streamed, journaled] = [counterOf('a'), counterOf('b')]
  for (let i = 0; i < 1_000; i += 1) backlog.push(reportOf(streamed, hour))
  for (let i = 0; i < 100; i += 1) backlog.push(reportOf(journaled))
  const { reports } = backlog.take(0)
  t.equal(reports.filter(({ counters }) => counters[0] === journaled).length, 64)
  t.equal(reports.length, 256)
})

test('a waiting caller is answered after the last of its entries', async (t) => {
  const backlog = createBacklog()
  const counters = Array.from({ length: 1_500 }, (_, i) => counterOf(`${i}`))
  for (const counter of counters) backlog.enter(counter)
  let kept = 0
  const wait = () => {
    const waited = backlog.kept().then(() => {
      kept += 1
    })
    return waited
  }
  const waiting = [wait()]
  backlog.push(reportOf(counters[0] as SharedCounter))
  waiting.push(wait())
  const answer = async () => {
    backlog.take(0)
    // Later entries are not waited for.
    backlog.enter(counterOf('later'))
    backlog.settle()
    await new Promise(setImmediate)
    return kept
  }
  t.strictSame([await answer(), await answer(), await answer()], [0, 0, 2])
  await Promise.all(waiting)
  backlog.enter(counterOf('last'))
  const givenUp = backlog.kept()
  backlog.giveUp(new Error('enough'))
  await t.rejects(givenUp, /enough/)
})
