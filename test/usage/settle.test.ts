import { test } from 'tap'
import type { JournalLine } from '../../src/journal/journal-line.ts'
import { chargeOfLine } from '../../src/usage/rules/line-charges.ts'
import type { UnusableUsage } from '../../src/usage/rules/usage.ts'
import { createLineSettler } from '../../src/usage/settle.ts'
import { endedLine, reportedTotal } from '../support/ended-line.ts'

function tell(line: JournalLine, unusableUsage: UnusableUsage = 'allow'): unknown[] {
  const told: unknown[] = []
  const settle = createLineSettler({
    holds: {
      follow: ({ response }, now) => told.push(['renewed', response.id, now]),
      release: ({ response }) => told.push(['released', response.id]),
      learn: (_, tokens) => told.push(['learned', tokens]),
    },
    clock: () => 2_000_000,
    monotonic: () => 0,
    all: { onEnded: ({ status, hasResponded }) => told.push(['ended', status, hasResponded]) },
    writer: {
      onEnded: ({ durationMs, firstByteMs }) => told.push(['took', firstByteMs, durationMs]),
      onAdmitted: ({ user }, startedAt) => told.push(['admitted', user, startedAt]),
      onCharged: (_, { tokens, unusable, estimated }) =>
        told.push(['charged', tokens, unusable, estimated]),
    },
  })
  settle.onLine(line)
  told.push('told')
  settle.onDelivered({ ...line, charge: chargeOfLine(line, unusableUsage) })
  return told
}

/** What the writer says of a response's charge. */
const charged = (line: JournalLine, unusableUsage?: UnusableUsage) =>
  tell(line, unusableUsage).filter((each) => Array.isArray(each) && each[0] === 'charged')

test('every process learns of an end, the writer of its charge', async (t) => {
  t.strictSame(tell(endedLine()), [
    ['released', 'a'],
    ['ended', 200, true],
    'told',
    ['took', 10, 40],
    ['learned', 40],
    ['charged', 40, false, 0],
  ])
})

test('a request that runs only renews its hold', async (t) => {
  t.strictSame(tell(endedLine({ state: 'running' })), [['renewed', 'a', 2_000_000], 'told'])
})

test('a line from before the start ends its hold', async (t) => {
  const released: number[] = []
  const settle = createLineSettler({
    holds: {
      follow() {},
      release: ({ response }) => void released.push(response.endedAt),
      learn() {},
    },
    ...{ clock: () => 2_000_000, monotonic: () => 0 },
    all: { onEnded: () => t.fail('it is told to all once') },
    writer: { onEnded() {}, onAdmitted() {}, onCharged() {} },
  })
  const endedAt = (at: number) => {
    const line = endedLine()
    return { ...line, usage: { ...line.usage, response: { ...line.usage.response, endedAt: at } } }
  }
  settle.onDelivered(endedAt(1_999_000), true)
  // Its lease has ended.
  settle.onDelivered(endedAt(1_940_000), true)
  settle.onDelivered(endedAt(1_998_000), false)
  t.strictSame(released, [1_999_000])
})

test('a clock that is set does not make a request in progress an old one', async (t) => {
  const clock = { set: 2_000_000, passed: 0 }
  const seen: number[] = []
  const settle = createLineSettler({
    holds: { follow: (_, now) => seen.push(now), release() {}, learn() {} },
    ...{ clock: () => clock.set + clock.passed, monotonic: () => clock.passed },
    all: { onEnded() {} },
    writer: { onEnded() {}, onAdmitted() {}, onCharged() {} },
  })
  const running = endedLine({ state: 'running' })
  settle.onLine(endedLine())
  clock.passed += 1_000
  clock.set += 90_000
  settle.onLine(running)
  t.strictSame(seen, [2_001_000], 'it began before the clock was put forward')
  clock.set -= 180_000
  settle.onLine(running)
  clock.set += 90_000
  settle.onLine(running)
  t.strictSame(seen.slice(1), [1_911_000, 1_911_000], 'or while it was behind')
})

test('nor does one that is set before the first line', async (t) => {
  const clock = { now: 2_000_000 }
  const seen: number[] = []
  const settle = createLineSettler({
    holds: { follow: (_, now) => seen.push(now), release() {}, learn() {} },
    ...{ clock: () => clock.now, monotonic: () => 0 },
    all: { onEnded() {} },
    writer: { onEnded() {}, onAdmitted() {}, onCharged() {} },
  })
  clock.now += 90_000
  settle.onLine(endedLine({ state: 'running' }))
  t.strictSame(seen, [2_000_000])
})

test('an operation that is not metered has an end and no charge', async (t) => {
  t.strictSame(tell(endedLine({ isMetered: false })), [
    ['released', 'a'],
    ['ended', 200, true],
    'told',
    ['took', 10, 40],
  ])
})

test('a request that no Check admitted is told of by its line', async (t) => {
  t.strictSame(tell(endedLine({ by: 'table' })).slice(-3), [
    ['admitted', 'ada', 1_000_000],
    ['learned', 40],
    ['charged', 40, false, 0],
  ])
})

test('a success without usage is estimated if the setting says so', async (t) => {
  for (const tokens of [undefined, '40', 1.5, -40, Number.POSITIVE_INFINITY, Number.NaN]) {
    const line = endedLine({ usage: { reported: reportedTotal(tokens) } })
    t.strictSame(charged(line), [['charged', undefined, true, 0]], String(tokens))
    t.strictSame(charged(line, 'estimate'), [['charged', 251, true, 251]], 'a token for 4 bytes')
  }
  for (const status of [0, 500]) {
    const line = endedLine({ usage: { status, reported: reportedTotal(undefined) } })
    t.strictSame(charged(line, 'estimate'), [['charged', undefined, false, 0]])
  }
  t.strictSame(charged(endedLine({ usage: { reported: reportedTotal(0) } }), 'estimate'), [
    ['charged', 0, false, 0],
  ])
})

test('nothing is learned from an estimate', async (t) => {
  const line = endedLine({ usage: { reported: reportedTotal(undefined) } })
  t.strictSame(tell(line, 'estimate')[4], ['learned', undefined])
})
