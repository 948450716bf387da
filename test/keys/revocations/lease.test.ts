import { test } from 'tap'
import { createCacheLease } from '../../../src/keys/revocations/lease.ts'

/** Clocks that only the test moves; their start is arbitrary. */
function create() {
  const at = { monotonic: 5_000, wall: 1_700_000_000_000 }
  const lease = createCacheLease(1_000, { monotonic: () => at.monotonic, wall: () => at.wall })
  function pass(monotonicMs: number, wallMs = monotonicMs): void {
    at.monotonic += monotonicMs
    at.wall += wallMs
  }
  return { lease, pass }
}

test('without an answer there is no lease', (t) => {
  const { lease } = create()
  t.equal(lease.state(), 'unconfirmed')
  t.equal(lease.ageMs(), Number.POSITIVE_INFINITY)
  t.end()
})

test('a lease begins when it was requested', (t) => {
  const { lease, pass } = create()
  const sentAt = lease.now()
  pass(300)
  lease.renew(sentAt)
  t.equal(lease.ageMs(), 300)
  lease.renew(sentAt - 50)
  t.equal(lease.ageMs(), 300, 'an earlier one does not shorten it')
  pass(699)
  t.equal(lease.state(), 'confirmed')
  pass(1)
  t.equal(lease.state(), 'unconfirmed')
  t.end()
})

test('after a failure the store counts as unavailable for a while', (t) => {
  const { lease, pass } = create()
  lease.renew(lease.now())
  pass(100)
  const sentAt = lease.now()
  pass(500)
  lease.fail(sentAt)
  t.equal(lease.state(), 'unavailable')
  pass(1_499)
  t.equal(lease.state(), 'unavailable')
  pass(1)
  t.equal(lease.state(), 'unconfirmed')
  t.end()
})

test('the later of two questions decides', (t) => {
  const { lease, pass } = create()
  const first = lease.now()
  pass(100)
  const second = lease.now()
  lease.fail(first)
  lease.renew(second)
  t.equal(lease.state(), 'confirmed')
  lease.fail(first)
  t.equal(lease.state(), 'confirmed', 'a late failure of the first question')
  t.end()
})

test('a question that fails because of a pause decides nothing', (t) => {
  for (const pauseMs of [1_000, 1_500, 10_000]) {
    const { lease, pass } = create()
    const sentAt = lease.now()
    lease.renew(sentAt - 10)
    pass(pauseMs)
    lease.fail(sentAt)
    t.equal(lease.state(), 'unconfirmed', 'it must be asked again')
  }
  t.end()
})

test('sleep of the machine counts', (t) => {
  const { lease, pass } = create()
  lease.renew(lease.now())
  pass(5, 3_600_000)
  t.equal(lease.state(), 'unconfirmed')
  t.equal(lease.ageMs(), 3_600_000)
  t.end()
})

test('setting a clock changes nothing', (t) => {
  const { lease, pass } = create()
  lease.renew(lease.now())
  pass(90)
  pass(90, -3_600_000)
  pass(90, 400)
  t.equal(lease.ageMs(), 270)
  t.end()
})
