import { test } from 'tap'
import {
  addReported,
  addTokens,
  createView,
  isOpen,
  takeAnswer,
  takePending,
  takeReported,
  usedIn,
} from '../../../../src/store/counters/redis/view.ts'

const minute = 60_000
const start = 5_000

/** A view that Redis has reported: tokens used, and the time left in the window. */
function told(used: number, leftMs: number, now = start) {
  const view = createView(minute)
  takeAnswer(view, { used, leftMs, acknowledged: 0 }, now)
  return view
}

test('a new view knows nothing', async (t) => {
  const view = createView(minute)
  t.match(view, { known: false, used: 0, endsAt: 0 })
  t.notOk(isOpen(view, start))
  t.equal(takePending(view, start), 0)
})

test('an addition opens a window at once', async (t) => {
  const view = createView(minute)
  addTokens(view, 40, start)
  addTokens(view, 2, start + 10)
  t.ok(isOpen(view, start + minute - 1))
  t.equal(usedIn(view), 42)
  t.equal(view.endsAt, start + minute)
  t.notOk(view.known, 'Redis does not know it yet')
})

test('tokens count wherever they were added', async (t) => {
  const view = told(100, 30_000)
  addTokens(view, 5, start + 1)
  t.equal(takePending(view, start + 2), 5)
  addTokens(view, 7, start + 3)
  t.match(view, { used: 100, sending: 5, pending: 7 })
  t.equal(usedIn(view), 112)
  takeAnswer(view, { used: 125, leftMs: 29_990, acknowledged: 5 }, start + 4)
  t.match(view, { used: 125, sending: 0, pending: 7 }, '20 are from other processes')
  t.equal(usedIn(view), 132)
})

test('Redis decides when a window ends', async (t) => {
  const view = createView(minute)
  addTokens(view, 1, start)
  takeAnswer(view, { used: 50, leftMs: 10_000, acknowledged: 0 }, start + 5)
  t.equal(view.endsAt, start + 10_005, 'another process has opened it earlier')
  takeAnswer(view, { used: 51, leftMs: 5 * minute, acknowledged: 1 }, start + 6)
  t.equal(view.endsAt, start + 6 + minute, 'but at most one window from now')
})

test('tokens of a response count until Redis answers', async (t) => {
  const view = createView(minute)
  addReported(view, 10, start, start - 20_000)
  t.equal(view.endsAt, start + 40_000, 'in a window from its end')
  addReported(view, 5, start + 1, start)
  t.equal(usedIn(view), 15)
  t.equal(takePending(view, start), 0, 'reported, not added')
  takeReported(view, 10, start)
  t.match(view, { sending: 10, reported: 5 })
  takeAnswer(view, { used: 0, leftMs: -2, acknowledged: 10 }, start)
  t.equal(usedIn(view), 5, 'Redis did not count the first one')
  t.equal(view.endsAt, start + 40_000)
  takeReported(view, 5, start)
  takeAnswer(view, { used: 0, leftMs: -2, acknowledged: 5 }, start)
  t.notOk(isOpen(view, start))
})

test('a response of an ended window is not added to the next one', async (t) => {
  const view = createView(minute)
  addReported(view, 10, start, start)
  addReported(view, 3, start + minute, start + minute)
  takeReported(view, 10, start + minute)
  takeReported(view, 3, start + minute)
  t.match(view, { sending: 3, reported: 0 })
})

test('tokens of an ended window do not count', async (t) => {
  const view = told(100, 1_000)
  addTokens(view, 5, start)
  takePending(view, start)
  addTokens(view, 6, start)
  t.notOk(isOpen(view, start + 1_000))
  t.match(view, { used: 0, sending: 0, pending: 0, endsAt: 0, known: true })
  addTokens(view, 3, start + 1_500)
  takeAnswer(view, { used: 3, leftMs: minute, acknowledged: 5 }, start + 1_600)
  t.match(
    view,
    { used: 3, sending: 0, pending: 3 },
    'a late answer takes nothing from the new window',
  )
})

test('a window that Redis does not know', async (t) => {
  for (const leftMs of [-2, -1, 0]) {
    const idle = told(100, 1_000)
    takeAnswer(idle, { used: 0, leftMs, acknowledged: 0 }, start + 10)
    t.notOk(isOpen(idle, start + 10), 'closed')
    const adding = told(100, 1_000)
    addTokens(adding, 5, start + 5)
    takeAnswer(adding, { used: 0, leftMs, acknowledged: 0 }, start + 10)
    t.ok(isOpen(adding, start + 10), 'unless something is being sent')
    t.equal(usedIn(adding), 5)
  }
})
