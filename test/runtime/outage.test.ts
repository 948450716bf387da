import { test } from 'tap'
import { createOutage } from '../../src/runtime/outage.ts'

test('an outage is told once at each of its ends', async (t) => {
  const told: (string | undefined)[] = []
  const outage = createOutage<string>((cause) => told.push(cause))
  outage.note(undefined)
  t.equal(outage.isOpen, false)
  for (const cause of ['first', 'second', undefined, undefined, 'third']) outage.note(cause)
  t.strictSame(told, ['first', undefined, 'third'])
  t.equal(outage.isOpen, true)
  outage.note('forbidden', 403)
  outage.note('forbidden again', 403)
  t.strictSame(told.slice(3), ['forbidden'], 'another way to fail')
  outage.note(undefined)
  t.equal(outage.isOpen, false)
})
