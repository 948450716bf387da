import { test } from 'tap'
import { createMissingLineDetector } from '../../src/journal/line-guard.ts'

test('a request without a line shows that lines do not come', async (t) => {
  let now = 0
  const changes: boolean[] = []
  const guard = createMissingLineDetector({
    ...{ withinMs: () => 15_000, monotonic: () => now },
    onChange: (isFailing) => changes.push(isFailing),
  })
  now = 60_000
  guard.poll()
  t.strictSame(changes, [], 'nobody has asked for anything')
  guard.noteAllowed()
  now += 10_000
  guard.noteAllowed()
  guard.noteLine()
  now += 10_000
  guard.poll()
  t.strictSame(changes, [], 'a line came after the first one')
  guard.noteAllowed()
  now += 14_999
  guard.noteAllowed()
  guard.poll()
  t.strictSame(changes, [])
  now += 1
  guard.poll()
  guard.poll()
  t.strictSame(changes, [true])
  t.equal(guard.mayTry(), false)
  now += 15_000
  t.equal(guard.mayTry(), true, 'one request may show whether lines come again')
  now += 49
  t.equal(guard.mayTry(), true, 'all of its decision')
  now += 1
  t.equal(guard.mayTry(), false)
  guard.noteLine()
  t.strictSame(changes, [true, false])
})

test('a request whose decision the gateway has not read needs no line', async (t) => {
  let now = 0
  let isFailing = false
  const guard = createMissingLineDetector({
    ...{ withinMs: () => 15_000, monotonic: () => now },
    onChange: (isOverdue) => {
      isFailing = isOverdue
    },
  })
  const later = (): boolean => {
    now += 15_000
    guard.poll()
    return isFailing
  }
  guard.noteAllowed()
  guard.noteAllowed()
  guard.noteLeft()
  guard.noteLeft()
  t.equal(later(), false)
  guard.noteAllowed()
  guard.noteLine()
  guard.noteLeft()
  guard.noteAllowed()
  guard.noteAllowed()
  guard.noteLeft()
  t.equal(later(), true, 'the other one does')
})
