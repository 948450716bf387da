import { test } from 'tap'
import { startPauseWatch } from '../../../src/store/revocations/pause-watch.ts'

/** Clocks that only the test moves; they start anywhere. */
function createClocks() {
  let monotonic = 5_000
  let wall = 1_700_000_000_000
  return {
    monotonic: () => monotonic,
    wall: () => wall,
    pass(monotonicMs: number, wallMs = monotonicMs) {
      monotonic += monotonicMs
      wall += wallMs
    },
  }
}

test('time that passes in small steps is no pause', (t) => {
  const clocks = createClocks()
  const watch = startPauseWatch(clocks)
  t.teardown(watch.stop)
  for (let i = 0; i < 40; i += 1) {
    clocks.pass(i % 2 === 0 ? 70 : 450)
    watch.now()
  }
  t.equal(watch.now(), 20 * 520)
  t.equal(watch.resumedAt(), Number.NEGATIVE_INFINITY)
  t.end()
})

test('a pause is seen by whoever looks first', (t) => {
  const clocks = createClocks()
  const watch = startPauseWatch(clocks)
  t.teardown(watch.stop)
  clocks.pass(30)
  const before = watch.now()
  clocks.pass(600)
  const resumedAt = watch.resumedAt()
  t.ok(resumedAt > before)
  clocks.pass(20)
  t.equal(watch.now(), 650)
  t.equal(watch.resumedAt(), resumedAt, 'one pause is one')
  clocks.pass(10_000)
  t.equal(watch.resumedAt(), 10_650)
  t.end()
})

test('the sleep of the machine counts', (t) => {
  const clocks = createClocks()
  const watch = startPauseWatch(clocks)
  t.teardown(watch.stop)
  clocks.pass(5, 3_600_000)
  t.equal(watch.now(), 3_600_000)
  t.equal(watch.resumedAt(), 3_600_000)
  t.end()
})

test('a clock set back changes nothing', (t) => {
  const clocks = createClocks()
  const watch = startPauseWatch(clocks)
  t.teardown(watch.stop)
  clocks.pass(90)
  clocks.pass(90, -3_600_000)
  t.equal(watch.now(), 180)
  t.equal(watch.resumedAt(), Number.NEGATIVE_INFINITY)
  t.end()
})
